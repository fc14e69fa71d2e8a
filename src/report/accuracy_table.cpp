#include "report/accuracy_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <span>
#include <string>
#include <utility>

#include "report/accuracy_rows.h"

namespace posenc {
namespace {

using Rows = std::span<const AccuracyRow>;  // of one setting
enum class Share { kExactMatch, kTokens };

std::string row_name(const AccuracyRow& row) { return row.extension == "none" ? row.label : row.label + " + " + row.extension; }

std::string percent(double share) { return fmt::format("{:.1f}", 100 * share); }

std::string depth_text(const std::optional<double>& depth) { return depth ? fmt::format("{}", *depth) : "all"; }

std::string cell_text(const AccuracyRow& row, Share share) {
  if (row.n == 0) return row.status;
  const Quantity& quantity = share == Share::kExactMatch ? row.exact_match : row.token_accuracy;
  std::string text = percent(*quantity.mean);
  if (share == Share::kExactMatch && row.interval)
    text += fmt::format(" [{}, {}]", percent(row.interval->low), percent(row.interval->high));
  else if (quantity.error) text += " ± " + percent(*quantity.error);
  return row.status == "partial" ? text + fmt::format(" (n={})", row.n) : text;
}

std::string task_text(const AccuracySetting& setting) {
  if (setting.train_lengths.size() != 2) return setting.task;
  return fmt::format("{}, trained at lengths {} to {}", setting.task, setting.train_lengths[0], setting.train_lengths[1]);
}

std::string or_unknown(const std::string& text) { return text.empty() ? "not recorded" : text; }

std::vector<std::string> notes_on(Rows rows, Share share) {
  const AccuracySetting& setting = rows.front().setting;
  std::vector<std::string> notes = {
      share == Share::kExactMatch
          ? "Share of questions whose whole answer is right, token by token as greedy decoding would give it; start, end and "
            "padding are not scored."
          : "Share of the answers' tokens that are right when those before them are given.",
      fmt::format("Split: {}. Protocol hash: {}.", or_unknown(setting.split), or_unknown(setting.protocol_hash))};
  const int n = std::ranges::max(rows, {}, &AccuracyRow::n).n;
  if (n > 1) notes.push_back(fmt::format("Mean over n = {} seeds; ±: half width of the 95 % t interval over the seeds.", n));
  else if (n == 1 && share == Share::kExactMatch)
    notes.push_back("[ ]: 95 % Wilson interval over the questions of one seed (n = 1).");
  else if (n == 1) notes.push_back("±: one standard error over the questions of one seed (n = 1).");
  std::set<std::string> seen;
  for (const AccuracyRow& row : rows) {
    const std::string reason = fmt::format("{} at {}: {}", row_name(row), row.length, row.reason);
    if (!row.reason.empty() && seen.insert(reason).second) notes.push_back(reason);
  }
  return notes;
}

std::vector<std::string> length_header(Rows rows) {
  std::set<std::int64_t> lengths;
  for (const AccuracyRow& row : rows) lengths.insert(row.length);
  std::vector<std::string> header;
  for (const std::int64_t length : lengths) header.push_back(std::to_string(length));
  return header;
}

bool has_depth(Rows rows) {
  return std::ranges::any_of(rows, [](const AccuracyRow& row) { return row.depth.has_value(); });
}

/// Rows × lengths, a line for each value of `name_of`, of the rows that `wanted` takes.
template <class Wanted, class Name>
void add_lines(Table& table, Rows rows, Share share, Wanted wanted, Name name_of) {
  for (const AccuracyRow& row : rows) {
    if (!wanted(row)) continue;
    const std::vector<std::string> names = name_of(row);
    const auto same = [&](const auto& line) { return std::equal(names.begin(), names.end(), line.begin()); };
    auto line = std::ranges::find_if(table.rows, same);
    if (line == table.rows.end()) line = table.rows.insert(table.rows.end(), names);
    line->push_back(cell_text(row, share));
  }
}

Table start_table(std::string title, std::vector<std::string> names, Rows rows) {
  Table table{std::move(title), std::move(names), {}, {}, {}};
  table.align.assign(table.header.size(), Align::kLeft);
  for (std::string& length : length_header(rows)) table.header.push_back(std::move(length));
  return table;
}

Table scheme_table(Rows rows, Share share) {
  const std::string what = share == Share::kExactMatch ? "Exact match in %, " : "Token accuracy in %, ";
  Table table = start_table(what + task_text(rows.front().setting) + ", by length", {"scheme"}, rows);
  add_lines(
      table, rows, share, [](const AccuracyRow& row) { return !row.depth; },
      [](const AccuracyRow& row) { return std::vector{row_name(row)}; });
  table.notes = notes_on(rows, share);
  if (has_depth(rows)) table.notes.push_back("All depths together.");
  return table;
}

/// Depth × length of the scheme and extension that `like` has.
Table depth_table(Rows rows, const AccuracyRow& like) {
  Table table = start_table(fmt::format("Exact match in %, {}, {}: by depth and length", row_name(like), task_text(like.setting)),
                            {"depth"}, rows);
  add_lines(
      table, rows, Share::kExactMatch, [&](const AccuracyRow& row) { return row.depth && row_name(row) == row_name(like); },
      [](const AccuracyRow& row) { return std::vector{depth_text(row.depth)}; });
  table.notes = {"Depth: where in the prompt stands what is asked for, 0 at its start, 1 at its end."};
  return table;
}

std::vector<Rows> by_setting(Rows rows) {
  std::vector<Rows> parts;
  while (!rows.empty()) {
    const auto end = std::ranges::find_if(rows, [&](const AccuracyRow& row) { return row.setting != rows.front().setting; });
    parts.push_back(rows.first(static_cast<std::size_t>(end - rows.begin())));
    rows = rows.subspan(parts.back().size());
  }
  return parts;
}

Json number(std::optional<double> value) { return value ? Json(*value) : Json(nullptr); }

Json row_to_json(const AccuracyRow& row) {
  const bool one = row.n == 1;
  return {{"task", row.setting.task},
          {"train_lengths", row.setting.train_lengths},
          {"split", row.setting.split},
          {"protocol_hash", row.setting.protocol_hash},
          {"scheme", row.scheme},
          {"label", row.label},
          {"extension", row.extension},
          {"length", row.length},
          {"depth", number(row.depth)},
          {"examples", row.examples},
          {"n", row.n},
          {"exact_match_mean", number(row.exact_match.mean)},
          {"exact_match_low", row.interval ? Json(row.interval->low) : Json(nullptr)},
          {"exact_match_high", row.interval ? Json(row.interval->high) : Json(nullptr)},
          {"exact_match_half_width", one ? Json(nullptr) : number(row.exact_match.error)},
          {"token_accuracy_mean", number(row.token_accuracy.mean)},
          {"token_accuracy_stderr", one ? number(row.token_accuracy.error) : Json(nullptr)},
          {"token_accuracy_half_width", one ? Json(nullptr) : number(row.token_accuracy.error)},
          {"status", row.status},
          {"reason", row.reason}};
}

std::string csv_text(const std::string& key, const Json& value) {
  if (key == "train_lengths" && value.size() == 2)
    return fmt::format("{}-{}", value[0].get<std::int64_t>(), value[1].get<std::int64_t>());
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number_integer()) return std::to_string(value.get<std::int64_t>());
  return value.is_number() ? exact_number(value.get<double>()) : "";
}

}  // namespace

std::vector<Table> accuracy_tables(const std::vector<Results>& runs) {
  const std::vector<AccuracyRow> rows = accuracy_rows(runs);
  std::vector<Table> tables;
  for (const Rows part : by_setting(rows)) {
    tables.push_back(scheme_table(part, Share::kExactMatch));
    tables.push_back(scheme_table(part, Share::kTokens));
    if (!has_depth(part)) continue;
    std::set<std::string> done;
    for (const AccuracyRow& row : part) {
      if (done.insert(row_name(row)).second) tables.push_back(depth_table(part, row));
    }
  }
  return tables;
}

Table accuracy_run_table(const Results& run) {
  const std::vector<AccuracyRow> rows = accuracy_rows({run});
  const AccuracySetting setting{run.task, run.task_lengths, run.split, run.protocol_hash};
  const bool deep = has_depth(rows);
  std::vector<std::string> names = {"extension", "metric"};
  if (deep) names.emplace_back("depth");
  Table table = start_table(fmt::format("{} ({}), {}, seed {}, by length", run.name, run.scheme, task_text(setting), run.seed),
                            std::move(names), rows);
  const auto add = [&](Share share, const char* metric) {
    const auto wanted = [&](const AccuracyRow& row) { return share == Share::kExactMatch || !row.depth; };
    const auto names_of = [&](const AccuracyRow& row) {
      std::vector<std::string> line = {row.extension, metric};
      if (deep) line.push_back(depth_text(row.depth));
      return line;
    };
    add_lines(table, rows, share, wanted, names_of);
  };
  add(Share::kExactMatch, "exact match %");
  add(Share::kTokens, "token accuracy %");
  if (!rows.empty()) {
    table.notes = notes_on(rows, Share::kExactMatch);
    table.notes.push_back("Token accuracy: share of the answers' tokens, ± one standard error over the questions.");
  }
  if (run.status != "ok") table.notes.push_back(fmt::format("This run is {}: {}.", run.status, or_unknown(run.reason)));
  return table;
}

Table accuracy_csv_table(const std::vector<Results>& runs) {
  Table table;
  const Json blank = row_to_json(AccuracyRow{});
  for (const auto& [key, value] : blank.items()) table.header.push_back(key);
  for (const AccuracyRow& row : accuracy_rows(runs)) {
    std::vector<std::string> line;
    const Json json = row_to_json(row);
    for (const auto& [key, value] : json.items())
      line.push_back(key == "exact_match_mean" && value.is_null() ? row.status : csv_text(key, value));
    table.rows.push_back(std::move(line));
  }
  return table;
}

Json accuracy_json(const std::vector<Results>& runs) {
  Json list = Json::array();
  for (const AccuracyRow& row : accuracy_rows(runs)) list.push_back(row_to_json(row));
  return list;
}

}  // namespace posenc
