#pragma once
// A task as a run learns it and is tested on it: which examples are for training, and how they become tokens. No torch.
//
//   tokens    <s> p r o m p t <answer> a n s </s>
//   inputs    <s> p r o m p t <answer> a n s            the model is fed these
//   targets    ·  · · · · · ·    a     n s </s>         and learns these; tests score the answer alone
//
// Whether an example is for training, validation or test follows from its question: a tenth of all questions is for each of
// validation and test, the others for training. A question at a length that training does not use cannot be in training, so there
// the test has those of training too. Every example is a pure function of its arguments and the task.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/config.h"
#include "data/tokenizer.h"

namespace posenc {

/// An example as tokens.
struct TaskSequence {
  std::vector<std::int32_t> tokens;
  std::int64_t answer = 0;  ///< tokens of the answer, which end before the last of all

  std::int64_t inputs() const { return static_cast<std::int64_t>(tokens.size()) - 1; }
  /// Offset of the input that predicts the first token of the answer.
  std::int64_t first_target() const { return inputs() - 1 - answer; }
};

class TaskData {
 public:
  /// `config` is resolved. What Task::prepare throws.
  explicit TaskData(const DataConfig& config);

  const Task& task() const { return *task_; }
  const DataConfig& config() const { return config_; }
  /// The most input positions of an example of this length.
  std::int64_t inputs(std::int64_t length) const { return task_inputs(*task_, {length}); }

  /// Number `first`, `first + 1`, … of the examples for `part` ("train" or "valid") under a seed, at lengths of training, each as
  /// likely, and at any depth. ConfigError when the lengths have no question for that part.
  std::vector<TaskSequence> sequences(const std::string& part, std::uint64_t seed, std::int64_t first, std::int64_t count) const;

  /// Up to config().examples different questions of one length and depth for `part` ("train", "valid" or "test"), the same for
  /// every run.
  std::vector<Example> examples(const std::string& part, std::int64_t length, double depth) const;

  /// "train", "valid" or "test".
  std::string part_of(const Example& example, std::int64_t length) const;

  TaskSequence encode(const Example& example) const;

 private:
  Example training_example(const std::string& part, std::uint64_t seed) const;

  DataConfig config_;
  std::unique_ptr<Task> task_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::vector<std::int64_t> trained_;  ///< ascending
};

}  // namespace posenc
