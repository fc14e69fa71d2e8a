#include "train/batch_source.h"

#include <algorithm>

namespace posenc {

BatchSource text_batches(const Split& data, const TrainConfig& config, std::uint64_t seed) {
  return [&data, seed, length = config.length, rows = config.sequences()](std::int64_t step) {
    Tensor windows = torch::empty({rows, length + 1}, torch::kInt64);
    auto* out = windows.data_ptr<std::int64_t>();
    for (const std::int64_t start : batch_starts(seed, step, rows, static_cast<std::int64_t>(data.tokens.size()), length))
      out = std::copy_n(data.tokens.begin() + start, length + 1, out);
    return Batch{windows.slice(1, 0, length), windows.slice(1, 1, length + 1), rows * length};
  };
}

BatchSource task_batches(const TaskData& data, const TrainConfig& config, std::uint64_t seed) {
  return [&data, seed, rows = config.sequences()](std::int64_t step) {
    std::vector<TaskSequence> sequences = data.sequences("train", seed, step * rows, rows);
    std::ranges::stable_sort(sequences, {}, &TaskSequence::inputs);
    return pad_sequences(sequences);
  };
}

Batch pad_sequences(const std::vector<TaskSequence>& sequences) {
  const auto rows = static_cast<std::int64_t>(sequences.size());
  const std::int64_t longest = std::ranges::max(sequences, {}, &TaskSequence::inputs).inputs();
  Batch batch{torch::full({rows, longest}, kPadding, torch::kInt64), torch::full({rows, longest}, -1, torch::kInt64)};
  for (std::int64_t row = 0; row < rows; ++row) {
    const TaskSequence& sequence = sequences[static_cast<std::size_t>(row)];
    std::copy_n(sequence.tokens.begin(), sequence.inputs(), batch.inputs.data_ptr<std::int64_t>() + row * longest);
    std::copy(sequence.tokens.begin() + sequence.first_target() + 1, sequence.tokens.end(),
              batch.targets.data_ptr<std::int64_t>() + row * longest + sequence.first_target());
    batch.positions += sequence.inputs();
  }
  return batch;
}

}  // namespace posenc
