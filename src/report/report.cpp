#include "report/report.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <optional>
#include <utility>

#include "core/error.h"
#include "report/accuracy_table.h"
#include "report/rows.h"
#include "report/table.h"
#include "report/tables.h"

namespace posenc {
namespace {

Json number(std::optional<double> value) { return value ? Json(*value) : Json(nullptr); }

void put(Json& json, const std::string& name, const Quantity& quantity, int n) {
  json[name + "_mean"] = number(quantity.mean);
  json[name + "_stderr"] = n == 1 ? number(quantity.error) : Json(nullptr);
  json[name + "_half_width"] = n > 1 ? number(quantity.error) : Json(nullptr);
}

Json row_to_json(const ReportRow& row) {
  Json json = {{"scheme", row.scheme},
               {"label", row.label},
               {"extension", row.extension},
               {"train_length", row.setting.train_length},
               {"protocol", row.setting.protocol},
               {"unit", row.setting.unit},
               {"split", row.setting.split},
               {"protocol_hash", row.setting.protocol_hash},
               {"length", row.length},
               {"window", row.window},
               {"stride", row.stride},
               {"targets", row.targets},
               {"n", row.n}};
  put(json, "nll", row.nll, row.n);
  put(json, "ppl", row.ppl, row.n);
  put(json, "bits_per_byte", row.bits_per_byte, row.n);
  json["status"] = row.status;
  json["reason"] = row.reason;
  return json;
}

std::string report_json(const std::vector<Results>& runs) {
  Json json = {{"schema", "posenc.report/1"}, {"runs", Json::array()}, {"rows", Json::array()}};
  for (const Results& run : runs) {
    Json entry = results_to_json(run);
    for (Json& cell : entry["cells"]) cell.erase("window_nll");
    json["runs"].push_back(std::move(entry));
  }
  for (const ReportRow& row : report_rows(runs)) json["rows"].push_back(row_to_json(row));
  json["accuracy"] = accuracy_json(runs);
  return dump_json(json);
}

/// A null as the row explains it: by its status when there is no number at all, "overflow" for a perplexity beyond a double.
std::string explain_null(const ReportRow& row, const std::string& key) {
  if (!key.ends_with("_mean")) return "";
  if (row.n == 0) return row.status;
  return key == "ppl_mean" ? "overflow" : "";
}

/// The rows as JSON has them, one a line.
Table csv_table(const std::vector<Results>& runs) {
  const auto tasks = std::ranges::count_if(runs, [](const Results& run) { return !run.task.empty(); });
  if (tasks == std::ssize(runs)) return accuracy_csv_table(runs);
  if (tasks > 0) throw ConfigError("csv has one kind of row: report runs on text and runs on tasks apart, or as json");
  Table table;
  const Json blank = row_to_json(ReportRow{});
  for (const auto& [key, value] : blank.items()) table.header.push_back(key);
  for (const ReportRow& row : report_rows(runs)) {
    std::vector<std::string> line;
    const Json json = row_to_json(row);
    for (const auto& [key, value] : json.items()) {
      if (value.is_string()) line.push_back(value.get<std::string>());
      else if (value.is_number_integer()) line.push_back(std::to_string(value.get<std::int64_t>()));
      else line.push_back(value.is_null() ? explain_null(row, key) : exact_number(value.get<double>()));
    }
    table.rows.push_back(std::move(line));
  }
  return table;
}

}  // namespace

std::string format_report(const std::vector<Results>& runs, const std::string& format) {
  require_format(format);
  if (runs.empty()) throw ConfigError("no run to report: name a results.json, a run directory or a sweep directory");
  if (format == "json") return report_json(runs);
  if (format == "csv") return render(csv_table(runs), format);
  std::string out;
  for (const Table& table : report_tables(runs)) out += (out.empty() ? "" : "\n") + render(table, format);
  return out;
}

std::string format_run_table(const Results& run) { return render(run_table(run), "text"); }

}  // namespace posenc
