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

}  // namespace posenc::testing
