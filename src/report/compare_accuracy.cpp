// The part of `posenc compare` that is about tasks.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "report/compare.h"

namespace posenc {
namespace {

std::vector<Accuracy> settled_accuracy(const Results* run) {
  std::vector<Accuracy> all;
  if (run == nullptr) return all;
  for (const Accuracy& accuracy : run->accuracy) all.push_back(settled(accuracy));
  return all;
}

const Accuracy* find(const std::vector<Accuracy>& all, const Accuracy& like) {
  const auto found = std::ranges::find_if(
      all, [&](const Accuracy& a) { return a.extension == like.extension && a.length == like.length && a.depth == like.depth; });
  return found == all.end() ? nullptr : &*found;
}

double variance(const Accuracy& a) { return *a.exact_match * (1 - *a.exact_match) / static_cast<double>(a.examples); }

std::string name_of(const AccuracyComparison& row) {
  const std::string depth = row.depth ? fmt::format(", depth {}", *row.depth) : "";
  return fmt::format("{}, {}, seed {}, extension {}, length {}{}", row.task, row.scheme, row.seed, row.extension, row.length,
                     depth);
}

AccuracyComparison start_row(const Results* before, const Results* after, const Accuracy* baseline, const Accuracy* candidate) {
  const Results& run = before ? *before : *after;
  const Accuracy& accuracy = baseline ? *baseline : *candidate;
  AccuracyComparison row;
  row.scheme = run.scheme, row.task = run.task;
  if (after && after->scheme != run.scheme) row.scheme += " -> " + after->scheme;
  row.extension = accuracy.extension, row.seed = run.seed, row.length = accuracy.length, row.depth = accuracy.depth;
  row.baseline = baseline ? baseline->status : "missing";
  row.candidate = candidate ? candidate->status : "missing";
  if (baseline) row.baseline_exact = baseline->exact_match;
  if (candidate) row.candidate_exact = candidate->exact_match;
  return row;
}

/// Sets the verdict where a gate is broken or the candidate is better by as much as a gate lets it be worse.
void apply_gates(AccuracyComparison& row, const std::string& scheme, const Accuracy* baseline, const Accuracy& candidate,
                 Comparison& out) {
  std::string broken;
  bool better = false;
  for (GateUse& use : out.gates) {
    if ((use.gate.change && !baseline) || !gate_applies(use.gate, scheme, candidate)) continue;
    ++use.cells;
    better = better || (baseline && gate_gains(use.gate, *baseline, candidate));
    if (!gate_fails(use.gate, baseline, candidate)) continue;
    ++use.failed;
    broken += (broken.empty() ? "breaks " : ", ") + use.gate.text;
  }
  if (!broken.empty()) row.verdict = "regressed", row.reason = broken;
  else if (better) row.verdict = "improved";
}

void judge(AccuracyComparison& row, const Results& after, const Accuracy& baseline, const Accuracy& candidate,
           const std::string& mismatch, Comparison& out) {
  if (!mismatch.empty()) {  // a problem of the runs, named once
    row.verdict = "not comparable", row.reason = mismatch;
    return;
  }
  if (baseline.examples != candidate.examples) {
    row.verdict = "not comparable";
    row.reason = fmt::format("examples differ: {} and {}", baseline.examples, candidate.examples);
    out.problems.push_back(name_of(row) + ": " + row.reason);
    return;
  }
  row.difference = *candidate.exact_match - *baseline.exact_match;
  row.difference_stderr = std::sqrt(variance(baseline) + variance(candidate));
  apply_gates(row, after.scheme, &baseline, candidate, out);
  if (row.verdict.empty()) row.verdict = "ok";
}

void lost(AccuracyComparison& row, const Results* after, const Accuracy* candidate, Comparison& out) {
  row.verdict = "missing";
  if (candidate) row.reason = fmt::format("candidate is {}: {}", candidate->status, candidate->reason);
  else if (!after) row.reason = "the candidate has no such run";
  else if (after->status != "ok") row.reason = fmt::format("the candidate's run is {}: {}", after->status, after->reason);
  else row.reason = "the candidate has no such length";
  out.problems.push_back(name_of(row) + ": " + row.reason);
}

void appeared(AccuracyComparison& row, const Results& after, const Accuracy* baseline, const Accuracy& candidate,
              Comparison& out) {
  apply_gates(row, after.scheme, nullptr, candidate, out);
  if (!row.verdict.empty()) return;
  row.verdict = "new";
  row.reason = baseline ? fmt::format("baseline is {}: {}", baseline->status, baseline->reason) : "not in the baseline";
}

}  // namespace

void compare_accuracy(const Results* before, const Results* after, const std::string& mismatch, Comparison& out) {
  const std::vector<Accuracy> baselines = settled_accuracy(before), candidates = settled_accuracy(after);
  const auto add = [&](const Accuracy* baseline, const Accuracy* candidate) {
    AccuracyComparison row = start_row(before, after, baseline, candidate);
    const bool had = baseline && baseline->status == "ok", has = candidate && candidate->status == "ok";
    if (had && has) judge(row, *after, *baseline, *candidate, mismatch, out);
    else if (had) lost(row, after, candidate, out);
    else if (has) appeared(row, *after, baseline, *candidate, out);
    else if (!baseline || !candidate) row.verdict = "ok", row.reason = "no number on either side";
    else if (row.baseline == "refused" && row.candidate == "refused") row.verdict = "ok", row.reason = "refused in both";
    else {
      row.verdict = "not comparable";
      row.reason = fmt::format("baseline {}, candidate {}: {}", row.baseline, row.candidate, candidate->reason);
      out.problems.push_back(name_of(row) + ": " + row.reason);
    }
    out.accuracy.push_back(std::move(row));
  };
  for (const Accuracy& baseline : baselines) add(&baseline, find(candidates, baseline));
  for (const Accuracy& candidate : candidates) {
    if (find(baselines, candidate) == nullptr) add(nullptr, &candidate);
  }
}

}  // namespace posenc
