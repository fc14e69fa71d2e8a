#pragma once
// The benchmarks' inside: a case of bench.h made ready to be timed.

#include <torch/types.h>

#include <cstdint>
#include <functional>

#include "run/bench.h"

namespace posenc {

/// What is timed, and what one iteration of it comes to.
struct BenchWork {
  std::function<void()> iteration;
  double flops = 0;         ///< 0: not counted
  std::int64_t tokens = 0;  ///< 0: none
  int threads = 1;
  bool shows_memory = false;
};

BenchWork prepare(const AttentionCase& c, int threads);
BenchWork prepare(const TrainCase& c, int threads);
BenchWork prepare(const EvalCase& c, int threads);
BenchWork prepare(const StartupCase& c, int threads);

/// Of random inputs, the same every time.
inline torch::Generator bench_generator() { return torch::make_generator<torch::CPUGeneratorImpl>(1); }

}  // namespace posenc
