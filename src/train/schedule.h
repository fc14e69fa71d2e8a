#pragma once
// The learning rate of a step, a pure function of the config and the step: nothing to restore on resume.

#include <cstdint>

#include "train/config.h"

namespace posenc {

/// Rate of `step` (from 0). Linear warm-up lr·(step+1)/(warmup+1), then cosine or linear decay to min_lr at the last step, or
/// constant; nanoGPT's get_lr with lr_decay_iters = steps. Finite for every warm-up, also one as long as the whole training.
double learning_rate(const TrainConfig& config, std::int64_t step);

}  // namespace posenc
