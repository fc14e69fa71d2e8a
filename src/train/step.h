#pragma once
// One optimizer step: forward and backward over fixed micro-batches on worker threads, gradients summed in the order of the
// micro-batches, clip, update. The micro-batches follow from the config alone, so 1 or N threads give the same bytes; there is no
// barrier inside a step.

#include <cstdint>

#include "model/language_model.h"
#include "train/optimizer.h"

namespace posenc {

struct StepOptions {
  double lr = 0;
  double grad_clip = 1;          ///< 0: none
  std::int64_t micro_batch = 8;  ///< sequences per piece
  int threads = 1;
  AttentionPath attention = AttentionPath::kAuto;
  double dropout = 0;
  std::uint64_t dropout_seed = 0;  ///< of this step
  std::uint64_t position_seed = 0;
};

struct StepResult {
  double loss = 0;       ///< mean NLL per scored target before the update
  double grad_norm = 0;  ///< before clipping
  bool finite = true;    ///< false: loss or gradient is NaN or infinite; the update was not applied
};

/// inputs, targets [B, T] int64. A target below 0 is not scored, as padding is not, nor the question of a task; one there must be
/// that is.
StepResult train_step(const LanguageModel& model, AdamW& optimizer, const Tensor& inputs, const Tensor& targets,
                      const StepOptions& options);

}  // namespace posenc
