#pragma once
// The training section of an experiment. No torch.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/schema.h"
#include "model/position.h"

namespace posenc {

/// A continuation of the training with another position and the same weights (DroPE: rope, then none for a short while). The
/// optimizer starts anew; what the new position has and the old had not is initialised.
struct TrainPhase {
  PositionConfig position;
  std::int64_t steps = 0, warmup = 0;
  std::optional<double> lr;  ///< null: train.lr
};

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
  std::string from;                ///< directory of the run whose weights training starts from; "": fresh ones
  std::vector<TrainPhase> phases;  ///< after the `steps` above, in this order
  std::int64_t log_every = 10, eval_every = 0, checkpoint_every = 200;

  void resolve() {
    if (!min_lr) min_lr = lr / 10;
    for (TrainPhase& phase : phases) {
      if (!phase.lr) phase.lr = lr;
      phase.position.sampler.resolve(length);
    }
  }
  /// Steps of all phases together.
  std::int64_t total_steps() const {
    std::int64_t total = steps;
    for (const TrainPhase& phase : phases) total += phase.steps;
    return total;
  }
  std::int64_t sequences() const { return batch_tokens / length; }
  /// Sequences per micro-batch: fixed by the config, never by the number of threads, so that sums come out the same.
  std::int64_t micro_batch() const { return std::max<std::int64_t>(1, std::min(micro_batch_tokens / length, sequences())); }
};

template <>
const Schema<TrainPhase>& schema<TrainPhase>();
template <>
const Schema<TrainConfig>& schema<TrainConfig>();

}  // namespace posenc
