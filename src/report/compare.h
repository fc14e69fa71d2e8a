#pragma once
// The CI gate: a candidate's numbers against a baseline's, cell by cell, from results files only.
//
//   Comparison c = compare_paths("baseline.json", "runs/rope", {parse_gate("ppl@512>+2%")});
//   std::cout << format_comparison(c, "text");
//   return static_cast<int>(c.verdict);
//
// Cells join on (scheme, train length, seed, extension, length, protocol), right answers on (scheme, task, …, length, depth); one run on each side joins whatever they are called.
// The gate never fails open: a different protocol, a missing file, a cell that was lost or holds no number, nothing in common, or
// a --fail-on that matches no cell all make the comparison impossible (exit 3), which outranks a regression (exit 1); both are
// shown.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/results.h"
#include "report/gate.h"

namespace posenc {

struct ComparisonRow {
  std::string scheme, extension, protocol;  ///< scheme: "rope", or "rope -> alibi" when runs of two schemes were joined
  std::int64_t train_length = 0, seed = 0, length = 0;
  std::string baseline, candidate;  ///< the cells' status: ok | refused | diverged | failed | unfinished | missing
  std::optional<double> baseline_ppl, candidate_ppl;
  std::optional<double> difference;  ///< candidate − baseline, nats per target; set when both cells are ok and alike in protocol
  std::optional<double> difference_stderr;  ///< over windows
  bool paired = false;                      ///< difference_stderr is over the differences of identical windows
  std::optional<double> relative_ppl;       ///< candidate / baseline − 1; absent when one of them overflows
  std::string verdict;                      ///< ok | regressed | improved | new | missing | not comparable
  std::string reason;
};

/// The same for right answers to a task.
struct AccuracyComparison {
  std::string scheme, task, extension;
  std::int64_t seed = 0, length = 0;
  std::optional<double> depth;
  std::string baseline, candidate;  ///< status, as in ComparisonRow
  std::optional<double> baseline_exact, candidate_exact;
  std::optional<double> difference;         ///< candidate − baseline, of the share of right answers
  std::optional<double> difference_stderr;  ///< from both shares as if independent: too wide, as the questions are the same
  std::string verdict, reason;              ///< as in ComparisonRow
};

struct GateUse {
  Gate gate;
  int cells = 0;   ///< it was applied to
  int failed = 0;  ///< that broke it
};

struct Comparison {
  std::vector<ComparisonRow> rows;
  std::vector<AccuracyComparison> accuracy;
  std::vector<GateUse> gates;
  std::vector<std::string> notes;
  std::vector<std::string> problems;  ///< why the comparison is not possible
  ExitCode verdict = ExitCode::kOk;   ///< kOk, kGateFailed or kNotComparable
};

/// Without gates: the default gates of these runs.
Comparison compare(const std::vector<Results>& baseline, const std::vector<Results>& candidate, std::vector<Gate> gates = {});

/// The same from what load_results reads; a file that cannot be read is a problem of the comparison, not an exception.
Comparison compare_paths(const std::filesystem::path& baseline, const std::filesystem::path& candidate,
                         std::vector<Gate> gates = {});

/// `format` is text, md, csv or json (else ConfigError). The verdict comes last: a line; in csv a row whose scheme is "(all)"; in
/// json the key "summary".
std::string format_comparison(const Comparison& comparison, const std::string& format);

/// "regressed: 1 of 12 cells broke a gate (exit 1)"
std::string verdict_line(const Comparison& comparison);

/// Adds a row of right answers for every length, depth and extension of either run; `mismatch`: why the two do not compare, or "".
void compare_accuracy(const Results* baseline, const Results* candidate, const std::string& mismatch, Comparison& out);

/// Proves on a made-up table that the gate can fail: worse numbers, a lost cell, another protocol, a null and so on must give
/// exits 1 and 3. Appends a line per check to `log`; true when all came out as they must.
bool compare_self_test(std::string& log);

}  // namespace posenc
