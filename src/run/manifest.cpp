#include "run/manifest.h"

#include <torch/version.h>

#include <cstdlib>

#include "core/machine.h"
#include "eval/evaluate.h"
#include "model/attention.h"
#include "posenc_git.h"
#include "run/blas.h"

namespace posenc {
namespace {

Json describe_split(const Split& split) {
  return {{"source", split.source}, {"bytes", split.bytes}, {"tokens", split.tokens.size()}, {"sha256", split.sha256}};
}

Json environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? Json(value) : Json(nullptr);
}

/// The path each part takes; a window longer than one group is scored alone.
Json attention_paths(const Experiment& e) {
  const AttentionPath wanted = attention_path(e.runtime.attention);
  LogitsShape shape{e.train.micro_batch(), e.model.heads, e.train.length, e.train.length, e.runtime.dtype == "float64" ? 8 : 4};
  Json paths = {{"wanted", e.runtime.attention}, {"training", attention_path_name(choose_attention(wanted, shape, true))}};
  for (const std::int64_t length : e.eval.lengths) {
    shape.batch = std::max<std::int64_t>(1, kGroupTokens / length);
    shape.queries = shape.keys = length;
    paths["evaluation"][std::to_string(length)] = attention_path_name(choose_attention(wanted, shape, false));
  }
  return paths;
}

}  // namespace

Json run_manifest(const Experiment& experiment, const Dataset& dataset, int threads) {
  const BlasInfo blas = blas_info();
  return {
      {"posenc", POSENC_VERSION},
      {"git", POSENC_GIT},
      {"compiler", __VERSION__},
      {"libtorch", TORCH_VERSION},
      {"blas", {{"library", blas.library}, {"config", blas.config}, {"kernel", blas.core}, {"threading", blas.threading}}},
      {"cpu", cpu_model()},
      {"simd", simd_level()},
      {"threads", threads},
      {"attention", attention_paths(experiment)},
      {"dtype", experiment.runtime.dtype},
      {"host", host_name()},
      {"environment", {{"OMP_WAIT_POLICY", environment("OMP_WAIT_POLICY")}, {"OMP_NUM_THREADS", environment("OMP_NUM_THREADS")}}},
      {"experiment_hash", experiment_hash(experiment)},
      {"data",
       {{"train", describe_split(dataset.train)},
        {"valid", describe_split(dataset.valid)},
        {"test", describe_split(dataset.test)}}},
      {"started", utc_now()}};
}

}  // namespace posenc
