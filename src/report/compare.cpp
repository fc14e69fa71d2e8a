#include "report/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>
#include <utility>

namespace posenc {
namespace {

/// Scheme, task, train length, seed, name or "".
using RunKey = std::tuple<std::string, std::string, std::int64_t, std::int64_t, std::string>;

/// Two runs to compare; either may be absent.
struct Pair {
  const Results* baseline = nullptr;
  const Results* candidate = nullptr;
};

std::string describe(const Results& run) {
  return fmt::format("{} ({}, trained at {}, seed {})", run.name, run.scheme, run.train_length, run.seed);
}

RunKey key_of(const Results& run, bool by_name) {
  return {run.scheme, run.task, run.train_length, run.seed, by_name ? run.name : ""};
}

/// The first run that shares its key with an earlier one.
const Results* duplicate(const std::vector<Results>& runs, bool by_name) {
  std::set<RunKey> seen;
  const auto found = std::ranges::find_if(runs, [&](const Results& run) { return !seen.insert(key_of(run, by_name)).second; });
  return found == runs.end() ? nullptr : &*found;
}

std::vector<Pair> join_runs(const std::vector<Results>& baseline, const std::vector<Results>& candidate, Comparison& out) {
  if (baseline.size() == 1 && candidate.size() == 1) {
    if (key_of(baseline[0], true) != key_of(candidate[0], true)) {
      out.notes.push_back(fmt::format("One run on each side, so they are compared although they differ: {} and {}.",
                                      describe(baseline[0]), describe(candidate[0])));
    }
    return {{&baseline[0], &candidate[0]}};
  }
  const bool by_name = duplicate(baseline, false) || duplicate(candidate, false);
  for (const auto* runs : {&baseline, &candidate}) {
    if (const Results* twice = duplicate(*runs, by_name)) {
      out.problems.push_back(fmt::format("the {} has two runs {}: compare one at a time",
                                         runs == &baseline ? "baseline" : "candidate", describe(*twice)));
    }
  }
  if (!out.problems.empty()) return {};
  if (by_name) out.notes.push_back("Several runs share scheme, train length and seed, so runs are joined by name too.");
  std::map<RunKey, std::size_t> place;
  std::vector<Pair> pairs;
  for (const Results& run : baseline) place[key_of(run, by_name)] = pairs.size(), pairs.push_back({&run, nullptr});
  for (const Results& run : candidate) {
    const auto found = place.find(key_of(run, by_name));
    if (found == place.end()) pairs.push_back({nullptr, &run});
    else pairs[found->second].candidate = &run;
  }
  return pairs;
}

std::vector<Cell> settled_cells(const Results* run) {
  std::vector<Cell> cells;
  if (run == nullptr) return cells;
  for (const Cell& cell : run->cells) cells.push_back(settled(cell, run->unit));
  return cells;
}

const Cell* find_cell(const std::vector<Cell>& cells, const Cell& like) {
  const auto found = std::ranges::find_if(cells, [&](const Cell& cell) {
    return cell.extension == like.extension && cell.length == like.length && cell.protocol == like.protocol;
  });
  return found == cells.end() ? nullptr : &*found;
}

bool is_mean_of(double nll, const std::vector<double>& windows) {
  double sum = 0;
  for (const double window : windows) sum += window;
  return std::abs(sum / static_cast<double>(windows.size()) - nll) <= 1e-6 * std::abs(nll);
}

/// Standard error of the mean of the windows' differences. Only when both sides have the same number of windows, each counting
/// the same: then they are the same windows, as protocol, targets, window and stride were found equal before.
std::optional<double> paired_stderr(const std::vector<double>& a, double a_nll, const std::vector<double>& b, double b_nll) {
  if (a.size() < 2 || a.size() != b.size() || !is_mean_of(a_nll, a) || !is_mean_of(b_nll, b)) return std::nullopt;
  const auto n = static_cast<double>(a.size());
  double squares = 0;
  for (std::size_t i = 0; i < a.size(); ++i) squares += std::pow(b[i] - a[i] - (b_nll - a_nll), 2);
  return std::sqrt(squares / (n - 1) / n);
}

void fill_numbers(ComparisonRow& row, const Cell& baseline, const Cell& candidate) {
  row.difference = *candidate.nll - *baseline.nll;
  if (baseline.ppl && candidate.ppl) row.relative_ppl = *candidate.ppl / *baseline.ppl - 1;
  if (const std::optional<double> paired =
          paired_stderr(baseline.window_nll, *baseline.nll, candidate.window_nll, *candidate.nll)) {
    row.paired = true;
    row.difference_stderr = paired;
  } else if (baseline.stderr_ && candidate.stderr_) {
    row.difference_stderr = std::hypot(*baseline.stderr_, *candidate.stderr_);
  }
}

/// Why the numbers of two runs do not mean the same, or "".
std::string protocol_mismatch(const Results& baseline, const Results& candidate) {
  if (baseline.unit != candidate.unit) return fmt::format("unit differs: {} and {}", baseline.unit, candidate.unit);
  if (baseline.protocol_hash != candidate.protocol_hash) {
    return fmt::format("protocol_hash differs: \"{}\" and \"{}\"", baseline.protocol_hash, candidate.protocol_hash);
  }
  return baseline.protocol_hash.empty() ? "no protocol_hash is recorded" : "";
}

std::string cell_mismatch(const Cell& a, const Cell& b) {
  if (a.window == b.window && a.stride == b.stride && a.targets == b.targets) return "";
  return fmt::format("window, stride, targets differ: {}, {}, {} and {}, {}, {}", a.window, a.stride, a.targets, b.window,
                     b.stride, b.targets);
}

/// Fills `out` with the rows of one pair of runs.
class PairComparison {
 public:
  PairComparison(const Pair& pair, Comparison& out)
      : pair_(pair), out_(&out), baseline_(settled_cells(pair.baseline)), candidate_(settled_cells(pair.candidate)) {
    const bool answers = pair.baseline && pair.candidate && !pair.baseline->accuracy.empty() && !pair.candidate->accuracy.empty();
    if (answers || (!baseline_.empty() && !candidate_.empty())) mismatch_ = protocol_mismatch(*pair.baseline, *pair.candidate);
    if (!mismatch_.empty()) out.problems.push_back(fmt::format("{}: {}", describe(*pair.candidate), mismatch_));
  }

  void run() {
    for (const Cell& cell : baseline_) add(&cell, find_cell(candidate_, cell));
    for (const Cell& cell : candidate_) {
      if (find_cell(baseline_, cell) == nullptr) add(nullptr, &cell);
    }
    compare_accuracy(pair_.baseline, pair_.candidate, mismatch_, *out_);
  }

 private:
  void add(const Cell* baseline, const Cell* candidate) {
    ComparisonRow row = start_row(baseline, candidate);
    const bool had = baseline && baseline->status == "ok";
    const bool has = candidate && candidate->status == "ok";
    if (had && has) judge_numbers(row, *baseline, *candidate);
    else if (had) lost(row, candidate);
    else if (has) appeared(row, baseline, *candidate);
    else if (!baseline || !candidate) row.verdict = "ok", row.reason = "no number on either side";
    else if (row.baseline == "refused" && row.candidate == "refused") row.verdict = "ok", row.reason = "refused in both";
    else not_comparable(row, fmt::format("baseline {}, candidate {}: {}", row.baseline, row.candidate, candidate->reason));
    out_->rows.push_back(std::move(row));
  }

  ComparisonRow start_row(const Cell* baseline, const Cell* candidate) const {
    const Results& run = pair_.baseline ? *pair_.baseline : *pair_.candidate;
    const Cell& cell = baseline ? *baseline : *candidate;
    ComparisonRow row;
    row.scheme = run.scheme;
    if (pair_.candidate && pair_.candidate->scheme != run.scheme) row.scheme += " -> " + pair_.candidate->scheme;
    row.extension = cell.extension, row.protocol = cell.protocol, row.length = cell.length;
    row.train_length = run.train_length, row.seed = run.seed;
    row.baseline = baseline ? baseline->status : "missing";
    row.candidate = candidate ? candidate->status : "missing";
    if (baseline) row.baseline_ppl = baseline->ppl;
    if (candidate) row.candidate_ppl = candidate->ppl;
    return row;
  }

  void judge_numbers(ComparisonRow& row, const Cell& baseline, const Cell& candidate) {
    const std::string difference = mismatch_.empty() ? cell_mismatch(baseline, candidate) : "";
    if (!difference.empty()) return not_comparable(row, difference);
    if (!mismatch_.empty()) {  // a problem of the runs, named once
      row.verdict = "not comparable", row.reason = mismatch_;
      return;
    }
    fill_numbers(row, baseline, candidate);
    apply_gates(row, &baseline, candidate);
    if (row.verdict.empty()) row.verdict = gained(baseline, candidate) ? "improved" : "ok";
  }

  void lost(ComparisonRow& row, const Cell* candidate) {
    row.verdict = "missing";
    if (candidate) row.reason = fmt::format("candidate is {}: {}", candidate->status, candidate->reason);
    else if (!pair_.candidate) row.reason = "the candidate has no such run";
    else if (pair_.candidate->status != "ok")
      row.reason = fmt::format("the candidate's run is {}: {}", pair_.candidate->status, pair_.candidate->reason);
    else row.reason = "the candidate has no such cell";
    out_->problems.push_back(name_of(row) + ": " + row.reason);
  }

  void appeared(ComparisonRow& row, const Cell* baseline, const Cell& candidate) {
    apply_gates(row, nullptr, candidate);
    if (!row.verdict.empty()) return;
    row.verdict = "new";
    row.reason = baseline ? fmt::format("baseline is {}: {}", baseline->status, baseline->reason) : "not in the baseline";
  }

  void not_comparable(ComparisonRow& row, const std::string& why) {
    row.verdict = "not comparable", row.reason = why;
    out_->problems.push_back(name_of(row) + ": " + why);
  }

  /// Without a baseline only the gates on the candidate alone can be applied.
  void apply_gates(ComparisonRow& row, const Cell* baseline, const Cell& candidate) {
    std::vector<std::string> broken;
    for (GateUse& use : out_->gates) {
      if ((use.gate.change && !baseline) || !gate_applies(use.gate, pair_.candidate->scheme, candidate)) continue;
      if (use.gate.change && !gate_applies(use.gate, pair_.candidate->scheme, *baseline)) continue;
      ++use.cells;
      if (!gate_fails(use.gate, baseline, candidate)) continue;
      ++use.failed;
      broken.push_back(use.gate.text);
    }
    if (!broken.empty()) row.verdict = "regressed", row.reason = fmt::format("breaks {}", fmt::join(broken, ", "));
  }

  /// By a gate's own measure where one on a rise applies, else by the default one's.
  bool gained(const Cell& baseline, const Cell& candidate) const {
    bool judged = false;
    for (const GateUse& use : out_->gates) {
      if (!use.gate.change || use.gate.amount <= 0 || !gate_applies(use.gate, pair_.candidate->scheme, candidate)) continue;
      if (!gate_applies(use.gate, pair_.candidate->scheme, baseline)) continue;
      judged = true;
      if (gate_gains(use.gate, baseline, candidate)) return true;
    }
    return !judged && gate_gains(default_gates().front(), baseline, candidate);
  }

  static std::string name_of(const ComparisonRow& row) {
    return fmt::format("{}, trained at {}, seed {}, extension {}, length {}, {}", row.scheme, row.train_length, row.seed,
                       row.extension, row.length, row.protocol);
  }

  Pair pair_;
  Comparison* out_;
  std::vector<Cell> baseline_, candidate_;
  std::string mismatch_;
};

void note_without_cells(const char* side, const Results* run, Comparison& out) {
  if (run == nullptr || run->status == "ok" || !run->cells.empty() || !run->accuracy.empty()) return;
  out.notes.push_back(fmt::format("The {}'s run {} is {}: {}", side, describe(*run), run->status, run->reason));
}

void decide(Comparison& out) {
  const auto joined = [](const auto& row) { return row.baseline != "missing" && row.candidate != "missing"; };
  const bool common = std::ranges::any_of(out.rows, joined) || std::ranges::any_of(out.accuracy, joined);
  if (!common && out.problems.empty()) out.problems.push_back("baseline and candidate have no cell in common");
  for (const GateUse& use : out.gates) {
    if (common && use.cells == 0)
      out.problems.push_back(
          fmt::format("the gate {} matches no cell with two numbers to compare: it could never fail", use.gate.text));
  }
  const auto worse = [](const auto& row) { return row.verdict == "regressed"; };
  const bool regressed = std::ranges::any_of(out.rows, worse) || std::ranges::any_of(out.accuracy, worse);
  out.verdict = !out.problems.empty() ? ExitCode::kNotComparable : regressed ? ExitCode::kGateFailed : ExitCode::kOk;
}

}  // namespace

Comparison compare(const std::vector<Results>& baseline, const std::vector<Results>& candidate, std::vector<Gate> gates) {
  Comparison out;
  if (gates.empty()) gates = default_gates(baseline, candidate);
  for (Gate& gate : gates) out.gates.push_back({std::move(gate), 0, 0});
  for (const Pair& pair : join_runs(baseline, candidate, out)) {
    note_without_cells("baseline", pair.baseline, out);
    note_without_cells("candidate", pair.candidate, out);
    PairComparison(pair, out).run();
  }
  decide(out);
  return out;
}

Comparison compare_paths(const std::filesystem::path& baseline, const std::filesystem::path& candidate, std::vector<Gate> gates) {
  std::vector<std::string> problems;
  const auto load = [&](const char* side, const std::filesystem::path& path) {
    try {
      return load_results(path);
    } catch (const Error& error) {
      problems.push_back(fmt::format("the {} cannot be read: {}", side, error.what()));
      return std::vector<Results>{};
    }
  };
  const std::vector<Results> before = load("baseline", baseline);
  const std::vector<Results> after = load("candidate", candidate);
  if (problems.empty()) return compare(before, after, std::move(gates));
  Comparison out;
  out.problems = std::move(problems);
  out.verdict = ExitCode::kNotComparable;
  return out;
}

}  // namespace posenc
