#pragma once
// results.json: what a finished run says, as values. Written by the run, read by report and compare; the format is contract.md
// §4. No torch.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/json.h"

namespace posenc {

/// One number with its protocol. `nll` is absent unless status is "ok".
struct Cell {
  std::string extension = "none";  ///< label: "none", "pi", "pi(factor=4)"
  std::int64_t length = 0;
  std::string protocol;  ///< fixed_target | nonoverlapping | sliding
  std::int64_t window = 0, stride = 0;
  std::int64_t targets = 0;
  std::optional<double> nll, stderr_, ppl, bits_per_byte;  ///< JSON keys nll, stderr, ppl, bits_per_byte
  std::string status = "ok";                               ///< ok | refused | diverged | failed
  std::string reason;                                      ///< when not ok
  std::vector<double> window_nll;                          ///< mean NLL of each window, for paired comparison; may be empty
};

struct PositionBucket {
  std::string extension = "none";
  std::int64_t length = 0, from = 0, to = 0;  ///< offsets [from, to) in a window of `length`
  std::int64_t targets = 0;
  std::optional<double> nll, stderr_;
};

/// Right answers to a task at one length. The numbers are absent unless status is "ok".
struct Accuracy {
  std::string extension = "none";
  std::int64_t length = 0;      ///< in what the task counts
  std::optional<double> depth;  ///< in [0, 1], where what is asked for is hidden; of tasks that hide something
  std::int64_t examples = 0;
  std::optional<double> exact_match;     ///< share of examples with every token of the answer right
  std::optional<double> low, high;       ///< 95 % Wilson interval of exact_match; JSON keys exact_match_low, exact_match_high
  std::optional<double> token_accuracy;  ///< share of the tokens of all answers
  std::optional<double> token_stderr;    ///< of token_accuracy, over examples; JSON key token_accuracy_stderr
  std::string status = "ok";             ///< ok | refused | diverged | failed
  std::string reason;                    ///< when not ok
};

struct Results {
  std::string name, scheme, unit = "byte", status = "ok", reason, protocol_hash;
  std::string task;                        ///< "copy", "copy(form=same)"; "" of a run on text
  std::vector<std::int64_t> task_lengths;  ///< shortest and longest of training; JSON key train_lengths
  std::string split;                       ///< the part of the data that was scored: "valid", "test"; "" when not recorded
  std::int64_t seed = 0, train_length = 0, parameters = 0;
  std::optional<double> train_seconds, tokens_per_second;
  std::vector<Cell> cells;
  std::vector<PositionBucket> by_position;
  std::vector<Accuracy> accuracy;
};

/// The cell as every reader may rely on it: "ok" means a finite nll, with ppl = exp(nll) unless that overflows (then the reason
/// says so) and bits_per_byte set when `unit` is "byte". An "ok" cell without a finite nll becomes "failed"; a cell that is not
/// ok holds no number and has a reason.
Cell settled(Cell cell, const std::string& unit);

/// The same for an accuracy: "ok" means a share in [0, 1], with its interval.
Accuracy settled(Accuracy accuracy);

/// No NaN or Infinity: such a number is null beside a status and reason (see settled).
Json results_to_json(const Results& results);

/// Strict on types and on what it needs, tolerant of fields it does not know. DataError naming file and pointer otherwise.
Results results_from_json(const Json& json, const std::string& name);

/// Reads what PATH names: a results.json (one run), a report.json / experiment results file (an object with "runs": [Results…]),
/// a run directory (its results.json), or a sweep directory (the results.json of every cell below it, sorted by path). A run
/// directory without results.json is reported as a Results with status "failed" or "diverged" and the reason its status.json
/// gives, or "unfinished".
std::vector<Results> load_results(const std::filesystem::path& path);

}  // namespace posenc
