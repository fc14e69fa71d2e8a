#include "report/accuracy_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

namespace posenc {
namespace {

using RowKey = std::pair<std::string, std::string>;  // label, extension

/// The rows and columns of one setting.
struct Grid {
  AccuracySetting setting;
  std::vector<RowKey> rows;
  std::set<std::int64_t> lengths;
  std::set<std::optional<double>> depths = {std::nullopt};
};

AccuracySetting setting_of(const Results& run) { return {run.task, run.task_lengths, run.split, run.protocol_hash}; }

std::vector<Grid> make_grids(const std::vector<Results>& runs, const std::vector<std::string>& labels) {
  std::vector<Grid> grids;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    for (const Accuracy& accuracy : runs[i].accuracy) {
      auto grid = std::ranges::find(grids, setting_of(runs[i]), &Grid::setting);
      if (grid == grids.end()) grid = grids.insert(grids.end(), Grid{setting_of(runs[i]), {}, {}});
      const RowKey key(labels[i], accuracy.extension);
      if (std::ranges::find(grid->rows, key) == grid->rows.end()) grid->rows.push_back(key);
      grid->lengths.insert(accuracy.length);
      grid->depths.insert(accuracy.depth);
    }
  }
  for (Grid& grid : grids) {  // runs that left nothing
    for (std::size_t i = 0; i < runs.size(); ++i) {
      const auto same = [&](const RowKey& key) { return key.first == labels[i]; };
      const bool belongs = runs[i].accuracy.empty() && !runs[i].task.empty() && runs[i].task == grid.setting.task;
      if (belongs && std::ranges::none_of(grid.rows, same)) grid.rows.emplace_back(labels[i], "none");
    }
    const auto rank = [&](const RowKey& key) { return std::ranges::find(labels, key.first) - labels.begin(); };
    std::ranges::stable_sort(grid.rows, {}, rank);
  }
  return grids;
}

/// What one run says about a row: the accuracies of all depths together, or why it says nothing.
struct Sample {
  std::int64_t seed = 0, examples = 0;
  double right = 0, tokens = 0;  ///< shares
  std::optional<double> token_error;
  std::string status = "ok", reason;
};

Sample pool(const Results& run, const std::vector<Accuracy>& parts) {
  Sample sample;
  sample.seed = run.seed;
  if (parts.empty()) {
    sample.status = run.status == "ok" ? "not run" : run.status;
    sample.reason = run.status == "ok" ? "" : run.reason;
  }
  for (const Accuracy& part : parts) {
    sample.examples += part.examples;
    if (part.status != "ok") {
      sample.status = part.status, sample.reason = part.reason;
      continue;
    }
    sample.right += *part.exact_match * static_cast<double>(part.examples);
    sample.tokens += part.token_accuracy.value_or(0) * static_cast<double>(part.examples);  // answers of one size
    if (parts.size() == 1) sample.token_error = part.token_stderr;
  }
  if (sample.status == "ok") {
    sample.right /= static_cast<double>(sample.examples);
    sample.tokens /= static_cast<double>(sample.examples);
  }
  return sample;
}

Quantity over_seeds(const std::vector<double>& values, std::optional<double> error_of_one) {
  if (values.empty()) return {};
  if (values.size() == 1) return {values[0], error_of_one};
  const MeanInterval interval = t_interval(values);
  return {interval.mean, interval.half_width};
}

void summarise(const std::vector<Sample>& samples, AccuracyRow& row) {
  std::vector<double> right, tokens;
  std::vector<std::string> words, reasons;
  std::optional<double> token_error;
  for (const Sample& sample : samples) {
    row.examples = std::max(row.examples, sample.examples);
    if (sample.status == "ok") {
      right.push_back(sample.right);
      tokens.push_back(sample.tokens);
      token_error = sample.token_error;
      continue;
    }
    if (std::ranges::find(words, sample.status) == words.end()) words.push_back(sample.status);
    const std::string reason = sample.status + (sample.reason.empty() ? "" : ": " + sample.reason);
    if (std::ranges::find(reasons, reason) == reasons.end()) reasons.push_back(reason);
  }
  row.n = static_cast<int>(right.size());
  row.exact_match = over_seeds(right, std::nullopt);
  row.token_accuracy = over_seeds(tokens, token_error);
  if (row.n == 1) row.interval = wilson_interval(right[0], row.examples);
  if (samples.empty()) row.status = "not run";
  else row.status = words.empty() ? "ok" : row.n > 0 ? "partial" : fmt::format("{}", fmt::join(words, "/"));
  row.reason = fmt::format("{}", fmt::join(reasons, "; "));
}

/// The accuracies of a run that a row is about; a row without a depth is about all.
std::vector<Accuracy> parts_of(const Results& run, const AccuracyRow& row) {
  std::vector<Accuracy> parts;
  for (const Accuracy& a : run.accuracy) {
    if (a.extension == row.extension && a.length == row.length && (!row.depth || a.depth == row.depth))
      parts.push_back(settled(a));
  }
  return parts;
}

void fill(AccuracyRow& row, const std::vector<Results>& runs, const std::vector<std::string>& labels) {
  std::vector<Sample> samples;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const bool left_nothing = runs[i].accuracy.empty() && runs[i].task == row.setting.task;
    if (labels[i] != row.label || !(left_nothing || setting_of(runs[i]) == row.setting)) continue;
    row.scheme = runs[i].scheme;
    samples.push_back(pool(runs[i], parts_of(runs[i], row)));
  }
  summarise(samples, row);
}

}  // namespace

std::vector<AccuracyRow> accuracy_rows(const std::vector<Results>& runs) {
  const std::vector<std::string> labels = row_labels(runs);
  std::vector<AccuracyRow> rows;
  for (const Grid& grid : make_grids(runs, labels)) {
    for (const auto& [label, extension] : grid.rows) {
      for (const std::int64_t length : grid.lengths) {
        for (const std::optional<double>& depth : grid.depths)
          rows.push_back({grid.setting, "", label, extension, length, depth, 0, 0, {}, {}, {}, "", ""});
      }
    }
  }
  for (AccuracyRow& row : rows) fill(row, runs, labels);
  return rows;
}

}  // namespace posenc
