#pragma once
// The `data` part of an experiment: where the text comes from and how it becomes tokens. No torch.
//
//   "data": {"corpus": "austen", "tokenizer": "byte"}
//   "data": {"path": "notes.txt"}                                            one file, split 90/5/5 by position
//   "data": {"path": {"train": "a.txt", "valid": "b.txt", "test": "c.txt"}}
//   "data": {"kind": "task", "task": "copy", "train_lengths": [1, 20], "test_lengths": [10, 20, 30, 40]}
//
// Reading it opens no file; load_dataset (dataset.h) does.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/schema.h"
#include "data/tasks/task.h"

namespace posenc {

struct DataConfig {
  std::string kind = "text";      ///< text | task
  std::string corpus = "austen";  ///< a named corpus (corpora.h); ignored when a path is given
  struct Paths {                  ///< instead of a corpus: one file (all parts from it) or three
    std::string all, train, valid, test;
    bool given() const { return !all.empty() || !train.empty() || !valid.empty() || !test.empty(); }
  } path;
  std::string tokenizer = "byte";  ///< byte | char | ids

  // Of a task; null for text.
  std::optional<TaskConfig> task;
  std::optional<std::vector<std::int64_t>> train_lengths;  ///< shortest and longest, in what the task counts
  std::optional<std::vector<std::int64_t>> test_lengths;
  std::optional<std::int64_t> examples;       ///< for each test length (and depth)
  std::optional<std::vector<double>> depths;  ///< in tests of a task that hides something

  bool is_task() const { return kind == "task"; }
  /// Fills in what a task's config leaves out.
  void resolve();
};

/// Lengths within `train_lengths` that a task has.
std::vector<std::int64_t> trained_lengths(const DataConfig& config);

/// Input positions that the longest example of any of the lengths needs.
std::int64_t task_inputs(const Task& task, const std::vector<std::int64_t>& lengths);

template <>
const Schema<DataConfig>& schema<DataConfig>();

/// A string (one file) or an object with exactly train, valid and test; null when no path is given.
template <>
struct Codec<DataConfig::Paths> {
  static bool read(const Json& j, DataConfig::Paths& out, const FieldRule& rule, const Reader& r);
  static Json write(const DataConfig::Paths& paths);
  static Json describe(const FieldRule& rule);
  static std::string type_name() { return "file or {train, valid, test}"; }
};

}  // namespace posenc
