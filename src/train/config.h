#pragma once
// The training section of an experiment. No torch.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/schema.h"

namespace posenc {

struct TrainConfig {
  std::int64_t length = 128;         ///< input positions per sequence
  std::int64_t batch_tokens = 4096;  ///< input positions per step
  std::int64_t micro_batch_tokens = 1024;
  std::int64_t steps = 1000;
  double lr = 1e-3;
  std::optional<double> min_lr;  ///< null: lr / 10
  std::int64_t warmup = 50;
  std::string schedule = "cosine";
  double weight_decay = 0.1;
  std::string decay = "matrices";
  std::vector<double> betas = {0.9, 0.95};
  double eps = 1e-8;
  double grad_clip = 1.0;
  std::int64_t log_every = 10, eval_every = 0, checkpoint_every = 200;

  void resolve() {
    if (!min_lr) min_lr = lr / 10;
  }
  std::int64_t sequences() const { return batch_tokens / length; }
  /// Sequences per micro-batch: fixed by the config, never by the number of threads, so that sums come out the same.
  std::int64_t micro_batch() const { return std::max<std::int64_t>(1, std::min(micro_batch_tokens / length, sequences())); }
};

template <>
const Schema<TrainConfig>& schema<TrainConfig>();

}  // namespace posenc
