#include "report/rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "core/statistics.h"

namespace posenc {
namespace {

struct Run {
  const Results* results;
  std::string label;
  std::vector<Cell> cells;  // settled
  /// Of a run on text, that is; one on a task has none.
  bool without_cells() const { return cells.empty() && results->task.empty(); }
  Setting setting(const Cell& cell) const {
    return {results->train_length, cell.protocol, results->unit, results->split, results->protocol_hash};
  }
};

using RowKey = std::pair<std::string, std::string>;  // label, extension

/// The lengths and rows of one table.
struct Grid {
  Setting setting;
  std::set<std::int64_t> lengths;
  std::vector<RowKey> rows;
  void add_row(const RowKey& key) {
    if (std::ranges::find(rows, key) == rows.end()) rows.push_back(key);
  }
  bool has_label(const std::string& label) const {
    return std::ranges::any_of(rows, [&](const RowKey& key) { return key.first == label; });
  }
};

/// One run's contribution to one row: a cell, or a word and a reason.
struct Sample {
  std::int64_t seed;
  Cell cell;
};

std::vector<Grid> make_grids(const std::vector<Run>& runs) {
  std::vector<Grid> grids;
  for (const Run& run : runs) {
    for (const Cell& cell : run.cells) {
      const Setting setting = run.setting(cell);
      auto grid = std::ranges::find(grids, setting, &Grid::setting);
      if (grid == grids.end()) grid = grids.insert(grids.end(), Grid{setting, {}, {}});
      grid->lengths.insert(cell.length);
      grid->add_row({run.label, cell.extension});
    }
  }
  for (const Run& run : runs) {
    for (Grid& grid : grids) {
      const bool belongs = run.without_cells() && run.results->train_length == grid.setting.train_length;
      if (belongs && !grid.has_label(run.label)) grid.add_row({run.label, "none"});
    }
  }
  const auto rank = [&](const RowKey& key) { return std::ranges::find(runs, key.first, &Run::label) - runs.begin(); };
  for (Grid& grid : grids) std::ranges::stable_sort(grid.rows, {}, rank);
  std::ranges::stable_sort(grids, {}, [](const Grid& grid) { return grid.setting.train_length; });
  return grids;
}

/// What `run` says about the row, or nothing when it was evaluated under another setting only.
std::optional<Sample> sample_of(const Run& run, const Grid& grid, const RowKey& key, std::int64_t length) {
  if (run.label != key.first || run.results->train_length != grid.setting.train_length) return std::nullopt;
  const auto here = [&](const Cell& cell) { return run.setting(cell) == grid.setting; };
  for (const Cell& cell : run.cells) {
    if (here(cell) && cell.extension == key.second && cell.length == length) return Sample{run.results->seed, cell};
  }
  Cell cell;
  cell.status = run.results->status == "ok" ? "not run" : run.results->status;
  cell.reason = run.results->status == "ok" ? "" : run.results->reason;
  if (run.without_cells() || std::ranges::any_of(run.cells, here)) return Sample{run.results->seed, cell};
  return std::nullopt;
}

Quantity over_seeds(const std::vector<std::optional<double>>& values, std::optional<double> error_of_one) {
  std::vector<double> samples;
  for (const auto& value : values) {
    if (!value) return {};  // one overflow leaves no mean
    samples.push_back(*value);
  }
  if (samples.empty()) return {};
  if (samples.size() == 1) return {samples[0], error_of_one};
  const MeanInterval interval = t_interval(samples);
  const auto finite = [](std::optional<double> x) { return x && std::isfinite(*x) ? x : std::nullopt; };
  return {finite(interval.mean), finite(interval.half_width)};
}

/// "diverged: loss is NaN" when all samples without a number say the same, else each with its seed.
std::string join_reasons(const std::vector<Sample>& samples) {
  std::vector<std::string> each;
  std::set<std::string> distinct;
  for (const auto& [seed, cell] : samples) {
    if (cell.status == "ok") continue;
    const std::string text = cell.status + (cell.reason.empty() ? "" : ": " + cell.reason);
    distinct.insert(text);
    each.push_back(fmt::format("seed {} {}", seed, text));
  }
  if (distinct.size() == 1 && each.size() == samples.size()) return *distinct.begin();
  return fmt::format("{}", fmt::join(each, "; "));
}

std::string join_status(const std::vector<Sample>& samples, int n) {
  if (n > 0) return n == static_cast<int>(samples.size()) ? "ok" : "partial";
  std::vector<std::string> words;
  for (const Sample& sample : samples) {
    if (std::ranges::find(words, sample.cell.status) == words.end()) words.push_back(sample.cell.status);
  }
  return fmt::format("{}", fmt::join(words, "/"));
}

void summarise(const std::vector<Sample>& samples, ReportRow& row) {
  std::vector<std::optional<double>> nll, ppl, bits;
  std::optional<double> error;
  for (const Sample& sample : samples) {
    const Cell& cell = sample.cell;
    if (cell.status == "ok" || row.window == 0) row.window = cell.window, row.stride = cell.stride, row.targets = cell.targets;
    if (cell.status != "ok") continue;
    nll.push_back(cell.nll), ppl.push_back(cell.ppl), bits.push_back(cell.bits_per_byte);
    error = cell.stderr_;
  }
  const auto scaled = [&](std::optional<double> factor) {
    return error && factor ? std::optional(*error * *factor) : std::nullopt;
  };
  row.n = static_cast<int>(nll.size());
  row.nll = over_seeds(nll, error);
  if (row.n == 1) {  // the delta method: d exp(x) = exp(x) dx; bits per byte are proportional to nll
    row.ppl = over_seeds(ppl, scaled(ppl[0]));
    row.bits_per_byte = over_seeds(bits, *nll[0] > 0 && bits[0] ? scaled(*bits[0] / *nll[0]) : std::nullopt);
  } else {
    row.ppl = over_seeds(ppl, std::nullopt);
    row.bits_per_byte = over_seeds(bits, std::nullopt);
  }
  row.status = samples.empty() ? "not run" : join_status(samples, row.n);
  row.reason = join_reasons(samples);
  if (row.n > 0 && !row.ppl.mean) row.reason += (row.reason.empty() ? "" : "; ") + std::string("perplexity overflows");
}

/// The row of a run that left no cells while no other run shows under what settings it would have been evaluated.
ReportRow lone_row(const Run& run) {
  ReportRow row;
  row.setting.train_length = run.results->train_length;
  row.scheme = run.results->scheme, row.label = run.label, row.extension = "none";
  row.status = run.results->status == "ok" ? "not run" : run.results->status;
  row.reason = run.results->reason;
  return row;
}

/// What runs that differ in seed alone share: label, task, train length.
using Kind = std::tuple<std::string, std::string, std::int64_t>;

/// The kinds of the runs whose seed is not theirs alone.
std::set<Kind> ambiguous(const std::vector<Results>& runs, const std::vector<std::string>& labels) {
  std::set<Kind> found;
  std::set<std::pair<Kind, std::int64_t>> seen;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const Kind kind(labels[i], runs[i].task, runs[i].train_length);
    if (!seen.emplace(kind, runs[i].seed).second) found.insert(kind);
  }
  return found;
}

}  // namespace

std::vector<std::string> row_labels(const std::vector<Results>& runs) {
  std::vector<std::string> labels;
  for (const Results& run : runs) labels.push_back(run.scheme);
  auto unclear = ambiguous(runs, labels);
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if (unclear.contains({labels[i], runs[i].task, runs[i].train_length})) labels[i] += " (" + runs[i].name + ")";
  }
  unclear = ambiguous(runs, labels);
  std::map<std::string, int> count;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if (unclear.contains({labels[i], runs[i].task, runs[i].train_length})) labels[i] += fmt::format(" #{}", ++count[labels[i]]);
  }
  return labels;
}

std::vector<ReportRow> report_rows(const std::vector<Results>& results) {
  const std::vector<std::string> labels = row_labels(results);
  std::vector<Run> runs;
  std::map<std::string, std::string> scheme_of;
  for (std::size_t i = 0; i < results.size(); ++i) {
    Run& run = runs.emplace_back(Run{&results[i], labels[i], {}});
    for (const Cell& cell : results[i].cells) run.cells.push_back(settled(cell, results[i].unit));
    scheme_of[labels[i]] = results[i].scheme;
  }
  const std::vector<Grid> grids = make_grids(runs);
  std::vector<ReportRow> rows;
  for (const Grid& grid : grids) {
    for (const RowKey& key : grid.rows) {
      for (const std::int64_t length : grid.lengths) {
        std::vector<Sample> samples;
        for (const Run& run : runs) {
          if (auto sample = sample_of(run, grid, key, length)) samples.push_back(std::move(*sample));
        }
        ReportRow row{grid.setting, scheme_of[key.first], key.first, key.second, length, 0, 0, 0, 0, {}, {}, {}, "", ""};
        summarise(samples, row);
        rows.push_back(std::move(row));
      }
    }
  }
  for (const Run& run : runs) {
    const auto same_length = [&](const Grid& grid) { return grid.setting.train_length == run.results->train_length; };
    if (run.without_cells() && std::ranges::none_of(grids, same_length)) rows.push_back(lone_row(run));
  }
  return rows;
}

}  // namespace posenc
