#pragma once
// Where the sequences of a training step come from: windows of a text, or examples of a task.

#include <cstdint>
#include <functional>
#include <vector>

#include "data/dataset.h"
#include "model/language_model.h"
#include "train/config.h"

namespace posenc {

/// The sequences of one step.
struct Batch {
  Tensor inputs, targets;      ///< [B, T] int64; a target below 0 is not scored
  std::int64_t positions = 0;  ///< inputs without padding
};

/// The batch of step 0, 1, …: a pure function of the step. What it is made from must outlive it.
using BatchSource = std::function<Batch(std::int64_t step)>;

/// Windows of config.length inputs, each once an epoch (data/batches.h).
BatchSource text_batches(const Split& data, const TrainConfig& config, std::uint64_t seed);

/// Examples of the training lengths, shortest first, so that sequences of one micro-batch are alike in length.
BatchSource task_batches(const TaskData& data, const TrainConfig& config, std::uint64_t seed);

/// Sequences as rows, padded at the end to the longest; scored are the tokens of the answer and the one that ends it.
Batch pad_sequences(const std::vector<TaskSequence>& sequences);

}  // namespace posenc
