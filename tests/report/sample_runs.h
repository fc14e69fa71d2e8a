#pragma once
// Results to report on and compare, small enough to check by hand.

#include <cmath>
#include <string>
#include <vector>

#include "core/results.h"

namespace posenc::testing {

inline Cell cell_with(std::int64_t length, double nll, const std::string& protocol = "fixed_target",
                      const std::string& extension = "none") {
  Cell cell;
  cell.extension = extension, cell.length = length, cell.protocol = protocol;
  cell.window = length, cell.stride = 64, cell.targets = 4096;
  cell.nll = nll, cell.stderr_ = 0.01;
  return settled(cell, "byte");
}

inline Cell cell_without(std::int64_t length, const std::string& status, const std::string& reason) {
  Cell cell;
  cell.length = length, cell.protocol = "fixed_target", cell.status = status, cell.reason = reason;
  return cell;
}

inline Results run_with(const std::string& scheme, std::int64_t seed, std::vector<Cell> cells) {
  Results run;
  run.name = scheme + "-" + std::to_string(seed), run.scheme = scheme, run.seed = seed, run.train_length = 128;
  run.protocol_hash = "abc123", run.split = "test";
  run.cells = std::move(cells);
  return run;
}

inline Results run_without(const std::string& scheme, std::int64_t seed, const std::string& status, const std::string& reason) {
  Results run = run_with(scheme, seed, {});
  run.status = status, run.reason = reason, run.protocol_hash = "";
  return run;
}

inline Accuracy right_at(std::int64_t length, double share, std::optional<double> depth = std::nullopt) {
  Accuracy accuracy;
  accuracy.length = length, accuracy.depth = depth, accuracy.examples = 500;
  accuracy.exact_match = share, accuracy.token_accuracy = (1 + share) / 2, accuracy.token_stderr = 0.01;
  return settled(accuracy);
}

inline Results task_run(const std::string& scheme, std::int64_t seed, std::vector<Accuracy> accuracy,
                        const std::string& task = "copy") {
  Results run = run_with(scheme, seed, {});
  run.name = task + "-" + run.name, run.task = task, run.task_lengths = {1, 20}, run.unit = "symbol";
  run.accuracy = std::move(accuracy);
  return run;
}

}  // namespace posenc::testing
