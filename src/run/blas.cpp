#include "run/blas.h"

#include <dlfcn.h>
#include <torch/types.h>

#include <algorithm>
#include <ctime>

namespace posenc {
namespace {

/// Time this thread has computed: what others do on the machine does not count.
double thread_cpu_seconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

}  // namespace

BlasInfo blas_info() {
  BlasInfo info;
  if (void* sgemm = dlsym(RTLD_DEFAULT, "sgemm_")) {
    Dl_info where;
    if (dladdr(sgemm, &where) && where.dli_fname) info.library = where.dli_fname;
  }
  const auto call = [](const char* name) {
    auto* function = reinterpret_cast<char* (*)()>(dlsym(RTLD_DEFAULT, name));
    return std::string(function ? function() : "");
  };
  info.config = call("openblas_get_config");
  info.core = call("openblas_get_corename");
  info.threading = "unknown";
  if (auto* parallel = reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, "openblas_get_parallel"))) {
    const int kind = parallel();
    info.threading = kind == 2 ? "openmp" : kind == 1 ? "pthread" : "none";
  }
  return info;
}

Json to_json(const BlasInfo& blas) {
  return {{"library", blas.library}, {"config", blas.config}, {"kernel", blas.core}, {"threading", blas.threading}};
}

double sgemm_gflops(std::int64_t n) {
  at::set_num_threads(1);
  const torch::InferenceMode inference;
  const torch::Tensor a = torch::rand({n, n}), b = torch::rand({n, n});
  torch::Tensor c = torch::mm(a, b);
  double best = 0;
  for (int i = 0; i < 8; ++i) {
    const double start = thread_cpu_seconds();
    torch::mm_out(c, a, b);
    const double seconds = thread_cpu_seconds() - start;
    best = std::max(best, 2.0 * static_cast<double>(n * n * n) / seconds / 1e9);
  }
  return best;
}

}  // namespace posenc
