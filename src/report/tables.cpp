#include "report/tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <span>
#include <string>
#include <utility>

#include "report/accuracy_table.h"
#include "report/position_table.h"
#include "report/rows.h"

namespace posenc {
namespace {

using Rows = std::span<const ReportRow>;  // of one setting

enum class Metric { kPerplexity, kBitsPerByte };

std::string row_name(const ReportRow& row) { return row.extension == "none" ? row.label : row.label + " + " + row.extension; }

int most_seeds(Rows rows) { return rows.empty() ? 0 : std::ranges::max(rows, {}, &ReportRow::n).n; }

std::string number_text(const ReportRow& row, Metric metric) {
  if (row.n == 0) return row.status;
  if (metric == Metric::kPerplexity) return short_perplexity(row.ppl.mean, row.ppl.error);
  return row.bits_per_byte.mean ? short_number(*row.bits_per_byte.mean, row.bits_per_byte.error) : "unknown";
}

std::string cell_text(const ReportRow& row, Metric metric, int usual_n) {
  return number_text(row, metric) + (row.n > 0 && row.n != usual_n ? fmt::format(" (n={})", row.n) : "");
}

/// "128" when every evaluated cell agrees, "the length" when it is that everywhere, else by length: "128 at 256, 256 at 512".
template <class Member>
std::string by_length(Rows rows, Member member) {
  std::map<std::int64_t, std::set<std::int64_t>> values;
  std::set<std::int64_t> all;
  for (const ReportRow& row : rows) {
    if (row.n == 0) continue;
    values[row.length].insert(row.*member);
    all.insert(row.*member);
  }
  if (all.size() <= 1) return all.empty() ? "unknown" : fmt::format("{}", *all.begin());
  const auto is_length = [](const auto& entry) { return entry.second == std::set{entry.first}; };
  if (std::ranges::all_of(values, is_length)) return "the length";
  std::vector<std::string> parts;
  for (const auto& [length, here] : values) parts.push_back(fmt::format("{} at {}", fmt::join(here, " or "), length));
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string protocol_rule(const std::string& protocol) {
  if (protocol == "fixed_target")
    return "the same last targets of every window, scored after length inputs that end there (cells of a row differ in context "
           "only)";
  if (protocol == "nonoverlapping")
    return "consecutive windows of length inputs, every target scored, the early ones with little context";
  if (protocol == "sliding") return "every target scored once, with at least length - stride tokens of context";
  return "see the run's config";
}

std::string or_unknown(const std::string& text) { return text.empty() ? "not recorded" : text; }

std::vector<std::string> setting_notes(Rows rows) {
  const Setting& setting = rows.front().setting;
  return {fmt::format("Protocol {}: {}.", setting.protocol, protocol_rule(setting.protocol)),
          fmt::format("Unit: {}. Split: {}. Targets: {}. Window: {}. Stride: {}. Protocol hash: {}.", setting.unit,
                      or_unknown(setting.split), by_length(rows, &ReportRow::targets), by_length(rows, &ReportRow::window),
                      by_length(rows, &ReportRow::stride), or_unknown(setting.protocol_hash))};
}

std::string error_note(Rows rows) {
  const int n = most_seeds(rows);
  const std::string one = "one standard error over the evaluation windows of one seed";
  if (n == 0) return "No cell has a number.";
  if (n == 1) return fmt::format("±: {} (n = 1).", one);
  const bool mixed = std::ranges::any_of(rows, [&](const ReportRow& row) { return row.n > 0 && row.n != n; });
  const std::string others = fmt::format(" Other n stand in the cell; with n=1, ± is {}.", one);
  return fmt::format("Mean over n = {} seeds; ±: half width of the 95 % t interval over the seeds.{}", n, mixed ? others : "");
}

/// One note per row and reason, with the lengths it holds for.
std::vector<std::string> reason_notes(Rows rows) {
  std::vector<std::pair<std::string, std::string>> order;  // name, reason
  std::map<std::pair<std::string, std::string>, std::vector<std::int64_t>> lengths;
  for (const ReportRow& row : rows) {
    if (row.reason.empty()) continue;
    const std::pair key(row_name(row), row.reason);
    if (!lengths.contains(key)) order.push_back(key);
    lengths[key].push_back(row.length);
  }
  std::vector<std::string> notes;
  for (const auto& key : order)
    notes.push_back(fmt::format("{} at {}: {}", key.first, fmt::join(lengths[key], ", "), key.second));
  return notes;
}

std::vector<std::string> length_header(Rows rows) {
  std::set<std::int64_t> lengths;
  for (const ReportRow& row : rows) lengths.insert(row.length);
  std::vector<std::string> header;
  for (const std::int64_t length : lengths) header.push_back(std::to_string(length));
  return header;
}

void append(std::vector<std::string>& to, std::vector<std::string> from) { std::ranges::move(from, std::back_inserter(to)); }

Table setting_table(Rows rows, Metric metric) {
  const Setting& setting = rows.front().setting;
  const std::string what = metric == Metric::kPerplexity ? "Perplexity per " + setting.unit : "Bits per byte";
  Table table{fmt::format("{}, trained at {}, {}, by evaluation length", what, setting.train_length, setting.protocol),
              {"scheme"},
              {},
              {Align::kLeft},
              {}};
  append(table.header, length_header(rows));
  const std::size_t width = table.header.size() - 1;
  for (std::size_t start = 0; start < rows.size(); start += width) {
    std::vector<std::string> line = {row_name(rows[start])};
    for (const ReportRow& row : rows.subspan(start, width)) line.push_back(cell_text(row, metric, most_seeds(rows)));
    table.rows.push_back(std::move(line));
  }
  table.notes = setting_notes(rows);
  table.notes.push_back(error_note(rows));
  const std::vector<std::string> reasons = reason_notes(rows);
  if (metric == Metric::kPerplexity) append(table.notes, reasons);
  else if (!reasons.empty()) table.notes.push_back("Reasons: as under the table of perplexity.");
  return table;
}

/// The rows of each setting, in order; those of runs that were evaluated under none are left to failed_runs.
std::vector<Rows> by_setting(Rows rows) {
  std::vector<Rows> parts;
  while (!rows.empty()) {
    const auto end = std::ranges::find_if(rows, [&](const ReportRow& row) { return row.setting != rows.front().setting; });
    const Rows part = rows.first(static_cast<std::size_t>(end - rows.begin()));
    if (!part.front().setting.protocol.empty()) parts.push_back(part);
    rows = rows.subspan(part.size());
  }
  return parts;
}

bool has_bits(Rows rows) {
  return std::ranges::any_of(rows, [](const ReportRow& row) { return row.bits_per_byte.mean.has_value(); });
}

std::string known_length(std::int64_t train_length) { return train_length > 0 ? std::to_string(train_length) : "unknown"; }

Table failed_runs(const std::vector<Results>& runs) {
  Table table{"Runs that are not ok", {"run", "scheme", "trained at", "seed", "status", "reason"}, {}, {}, {}};
  table.align = {Align::kLeft, Align::kLeft, Align::kRight, Align::kRight, Align::kLeft, Align::kLeft};
  for (const Results& run : runs) {
    if (run.status == "ok") continue;
    table.rows.push_back(
        {run.name, run.scheme, known_length(run.train_length), std::to_string(run.seed), run.status, or_unknown(run.reason)});
  }
  return table;
}

}  // namespace

std::vector<Table> report_tables(const std::vector<Results>& runs) {
  const std::vector<ReportRow> rows = report_rows(runs);
  std::vector<Table> tables;
  for (const Rows part : by_setting(rows)) {
    tables.push_back(setting_table(part, Metric::kPerplexity));
    if (has_bits(part)) tables.push_back(setting_table(part, Metric::kBitsPerByte));
  }
  std::ranges::move(position_tables(runs), std::back_inserter(tables));
  std::ranges::move(accuracy_tables(runs), std::back_inserter(tables));
  Table failed = failed_runs(runs);
  if (!failed.rows.empty()) tables.push_back(std::move(failed));
  return tables;
}

Table run_table(const Results& run) {
  if (!run.task.empty()) return accuracy_run_table(run);
  const std::vector<ReportRow> rows = report_rows({run});
  Table table{
      fmt::format("{} ({}), trained at {}, seed {}, by evaluation length", run.name, run.scheme, run.train_length, run.seed),
      {},
      {},
      {},
      {}};
  table.header = {"protocol", "extension", "metric"};
  table.align = {Align::kLeft, Align::kLeft, Align::kLeft};
  const std::vector<std::string> lengths = run.cells.empty() ? std::vector<std::string>{} : length_header(rows);
  append(table.header, lengths);
  const auto add_lines = [&](Rows part, const std::string& extension, Metric metric) {
    std::vector<std::string> line = {part.front().setting.protocol, extension,
                                     metric == Metric::kPerplexity ? "ppl per " + run.unit : "bits per byte"};
    for (const std::string& length : lengths) {
      const auto row = std::ranges::find_if(
          part, [&](const ReportRow& r) { return r.extension == extension && std::to_string(r.length) == length; });
      line.push_back(row == part.end() ? "not run" : cell_text(*row, metric, 1));
    }
    table.rows.push_back(std::move(line));
  };
  for (const Rows part : by_setting(rows)) {
    std::vector<std::string> extensions;
    for (const ReportRow& row : part) {
      if (std::ranges::find(extensions, row.extension) == extensions.end()) extensions.push_back(row.extension);
    }
    for (const std::string& extension : extensions) {
      add_lines(part, extension, Metric::kPerplexity);
      if (has_bits(part)) add_lines(part, extension, Metric::kBitsPerByte);
    }
    append(table.notes, setting_notes(part));
    append(table.notes, reason_notes(part));
  }
  table.notes.push_back(error_note(rows));
  if (run.status != "ok") table.notes.push_back(fmt::format("This run is {}: {}.", run.status, or_unknown(run.reason)));
  return table;
}

}  // namespace posenc
