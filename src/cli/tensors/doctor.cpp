#include <fmt/format.h>
#include <torch/version.h>

#include <cstdlib>

#include "cli/command.h"
#include "cli/tensor_commands.h"
#include "core/machine.h"
#include "data/corpora.h"
#include "kernels/attention.h"
#include "run/blas.h"

namespace posenc {
namespace {

/// A finding with its cure; none means that all is well.
struct Finding {
  std::string what, cure;
};

/// One core of the last ten years does far more than this with any optimised BLAS.
constexpr double kSlowGflops = 15;

std::vector<Finding> findings(const BlasInfo& blas, double gflops) {
  std::vector<Finding> found;
  if (blas.slow() || gflops < kSlowGflops) {
    found.push_back({fmt::format("slow BLAS: {} gives {:.1f} GFLOP/s on a 512x512x512 product", blas.library, gflops),
                     "apt-get install libopenblas0-openmp"});
  } else if (blas.threading == "pthread") {
    found.push_back({"OpenBLAS is the pthread build, which is 2-4 times slower beside OpenMP with several threads",
                     "apt-get install libopenblas0-openmp, then update-alternatives --config libblas.so.3-x86_64-linux-gnu"});
  }
  const char* kernel = std::getenv("OPENBLAS_CORETYPE");
  if (kernel && simd_level() == "avx512" && (blas.core == "Haswell" || blas.core == "Zen")) {
    found.push_back({fmt::format("OPENBLAS_CORETYPE={} holds OpenBLAS to AVX2 kernels on a processor with AVX-512", kernel),
                     "unset OPENBLAS_CORETYPE OPENBLAS_L2_SIZE, unless it was set against a fault of this OpenBLAS"});
  }
  const char* wait = std::getenv("OMP_WAIT_POLICY");
  if (!wait || std::string(wait) != "passive") {
    found.push_back({"OMP_WAIT_POLICY is not passive: OpenMP workers spin at barriers, ten times slower on a busy machine",
                     "unset OMP_WAIT_POLICY (posenc sets it) or export OMP_WAIT_POLICY=passive"});
  }
  for (const Corpus& corpus : corpora()) {
    for (const CorpusPart& part : corpus.parts) {
      if (fs::exists(corpus.file(part))) continue;
      found.push_back({"corpus " + corpus.name + " is not installed", "scripts/fetch_corpora " + corpus.name});
      break;
    }
  }
  return found;
}

}  // namespace

int run_doctor(const std::string& format) {
  const BlasInfo blas = blas_info();
  const double gflops = sgemm_gflops();
  const auto found = findings(blas, gflops);
  Json json = {{"posenc", POSENC_VERSION},
               {"libtorch", TORCH_VERSION},
               {"blas", to_json(blas)},
               {"sgemm_512_gflops", gflops},
               {"simd", simd_level()},
               {"kernels", kernels::simd_target()},
               {"cpu", cpu_model()},
               {"threads", available_cores()},
               {"available_memory_bytes", available_memory()},
               {"data", data_directory().string()},
               {"findings", Json::array()}};
  for (const Finding& f : found) json["findings"].push_back({{"what", f.what}, {"cure", f.cure}});
  if (format == "json") return deliver(dump_json(json), ""), 0;
  std::string text = fmt::format(
      "LibTorch  {}\nBLAS      {} ({} kernel, {} threads): {:.1f} GFLOP/s on one thread\nSIMD      {}\nCPU       {}\nthreads   "
      "{}\nmemory    {:.1f} GiB available\ndata      {}\n",
      TORCH_VERSION, blas.library, blas.core.empty() ? "no" : blas.core, blas.threading, gflops, simd_level(), cpu_model(),
      available_cores(), static_cast<double>(available_memory()) / (1 << 30), data_directory().string());
  for (const Finding& f : found) text += "\n! " + f.what + "\n  mend it: " + f.cure + "\n";
  if (found.empty()) text += "\nnothing to mend\n";
  deliver(text, "");
  return 0;
}

}  // namespace posenc
