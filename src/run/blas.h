#pragma once
// Which BLAS LibTorch calls, and how fast it is. Debian's libtorch without OpenBLAS multiplies at 4 GFLOP/s instead of well over
// 100.

#include <cstdint>
#include <string>

#include "core/json.h"

namespace posenc {

struct BlasInfo {
  std::string library;    ///< path of the shared object that provides sgemm
  std::string config;     ///< OpenBLAS' own description; empty for another library
  std::string core;       ///< the kernel it chose: "Haswell", …
  std::string threading;  ///< "openmp", "pthread", "none" or "unknown"
  bool slow() const { return core.empty(); }
};

BlasInfo blas_info();

/// library, config, kernel, threading: how manifests, doctor and bench write it.
Json to_json(const BlasInfo& blas);

/// GFLOP/s of a float32 n×n×n product on one thread, by CPU time: the best of several.
double sgemm_gflops(std::int64_t n = 512);

}  // namespace posenc
