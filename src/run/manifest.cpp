#include "run/manifest.h"

#include <torch/version.h>

#include <cstdlib>

#include "core/machine.h"
#include "kernels/attention.h"
#include "posenc_git.h"
#include "run/blas.h"

namespace posenc {
namespace {

Json describe_split(const Split& split) {
  return {{"source", split.source}, {"bytes", split.bytes}, {"tokens", split.tokens.size()}, {"sha256", split.sha256}};
}

/// A task is made from its name and lengths, which the config has.
Json describe_data(const Dataset& dataset) {
  if (dataset.task) return Json::object({{"task", dataset.task->config().task->label()}});
  return {
      {"train", describe_split(dataset.train)}, {"valid", describe_split(dataset.valid)}, {"test", describe_split(dataset.test)}};
}

Json environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? Json(value) : Json(nullptr);
}

}  // namespace

Json run_manifest(const Experiment& experiment, const Dataset& dataset, int threads) {
  const BlasInfo blas = blas_info();
  return {
      {"posenc", POSENC_VERSION},
      {"git", POSENC_GIT},
      {"compiler", __VERSION__},
      {"libtorch", TORCH_VERSION},
      {"blas", to_json(blas)},
      {"cpu", cpu_model()},
      {"simd", simd_level()},
      {"kernels", kernels::simd_target()},
      {"threads", threads},
      {"attention", {{"wanted", experiment.runtime.attention}}},
      {"dtype", experiment.runtime.dtype},
      {"host", host_name()},
      {"environment", {{"OMP_WAIT_POLICY", environment("OMP_WAIT_POLICY")}, {"OMP_NUM_THREADS", environment("OMP_NUM_THREADS")}}},
      {"experiment_hash", experiment_hash(experiment)},
      {"data", describe_data(dataset)},
      {"started", utc_now()}};
}

}  // namespace posenc
