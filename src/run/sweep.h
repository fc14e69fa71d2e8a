#pragma once
// A grid of experiments: a base, and the values to vary in it. A sweep is a loop over Experiment values and does not know what a
// scheme is.
//
//   { "name": "lengths", "base": "rope.json", "vary": {"/model/position": ["rope", "alibi"], "/seed": [1, 2, 3]},
//     "zip": {"/train/length": [64, 128], "/train/batch_tokens": [2048, 4096]} }
//
// "vary" is the product of its lists; the lists of "zip" advance together and are one more factor. Each cell is a run of its own
// in a directory that is a function of its resolved config, run by a process of its own, so that a failing one harms no other. No
// torch.

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "config/experiment.h"

namespace posenc {

struct SweepConfig {
  std::string name;            ///< default: the file's stem
  Json base = Json::object();  ///< experiment object, or the name of a file relative to the sweep file
  Json vary = Json::object(), zip = Json::object();
};

template <>
const Schema<SweepConfig>& schema<SweepConfig>();

/// JSON taken as it is: the sections of a sweep that are read cell by cell.
template <>
struct Codec<Json> {
  static bool read(const Json& j, Json& out, const FieldRule&, const Reader&) { return out = j, true; }
  static Json write(const Json& value) { return value; }
  static Json describe(const FieldRule&) { return Json::object(); }
  static std::string type_name() { return "JSON"; }
};

/// One point of the grid.
struct SweepCell {
  std::string name;                      ///< directory name: scheme, training length, seed and 8 digits of the config's hash
  std::string values;                    ///< what it varies, for people: "position=rope seed=1"
  std::optional<Experiment> experiment;  ///< absent when its config is wrong
  std::string error;                     ///< then: why
  Json given;                            ///< and what it says, as far as it goes
};

struct Sweep {
  std::string name;
  std::vector<SweepCell> cells;
};

/// Largest grid; a typing error in a list must not start a year of work.
inline constexpr std::size_t kMaxCells = 10'000;

/// Reads and expands a sweep file. ConfigError: the file itself, lists of unequal length in "zip", the same run twice, more than
/// kMaxCells cells. A cell whose own config is wrong is kept with its error.
Sweep load_sweep(const std::filesystem::path& path);

struct SweepOptions {
  std::filesystem::path directory;
  int jobs = 0;     ///< processes at once; 0: cores / threads
  int threads = 0;  ///< of each; 0: the config's, else 1
  bool resume = false, fail_fast = false;
};

struct SweepOutcome {
  int finished = 0, skipped = 0, failed = 0, diverged = 0;
  bool stopped = false;
};

/// Runs the cells that have not finished. Throws ConfigError when the directory holds a sweep and `resume` is false.
SweepOutcome run_sweep(const Sweep& sweep, const SweepOptions& options);

}  // namespace posenc
