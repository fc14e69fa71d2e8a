#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "report/compare.h"
#include "report/table.h"

namespace posenc {
namespace {

/// A perplexity, or the word that stands for it.
std::string ppl_text(const std::string& status, std::optional<double> ppl) {
  return status == "ok" ? short_perplexity(ppl) : status;
}

std::string exact_ppl_text(const std::string& status, std::optional<double> ppl) {
  if (status != "ok") return status;
  return ppl ? exact_number(ppl) : "overflow";
}

std::string difference_text(const ComparisonRow& row) {
  if (!row.difference) return "-";
  const std::string value = fmt::format("{:+.4f}", *row.difference);
  return row.difference_stderr ? fmt::format("{} ± {:.4f}{}", value, *row.difference_stderr, row.paired ? "" : " unpaired")
                               : value;
}

std::string relative_text(const ComparisonRow& row) {
  if (!row.difference) return "-";
  return row.relative_ppl && *row.relative_ppl < 10 ? fmt::format("{:+.2f}%", 100 * *row.relative_ppl) : ">+1e3%";
}

std::vector<std::string> reader_line(const ComparisonRow& row) {
  return {row.scheme,
          std::to_string(row.train_length),
          std::to_string(row.seed),
          row.extension,
          std::to_string(row.length),
          row.protocol,
          ppl_text(row.baseline, row.baseline_ppl),
          ppl_text(row.candidate, row.candidate_ppl),
          difference_text(row),
          relative_text(row),
          row.verdict,
          row.reason};
}

/// What holds for the whole comparison.
void add_notes(Table& table, const Comparison& comparison) {
  for (const GateUse& use : comparison.gates) {
    table.notes.push_back(fmt::format("Fails on {}: applied to {} cells, broken by {}.", use.gate.text, use.cells, use.failed));
  }
  for (const std::string& note : comparison.notes) table.notes.push_back(note);
  for (const std::string& problem : comparison.problems) table.notes.push_back("Problem: " + problem);
}

Table reader_table(const Comparison& comparison) {
  Table table;
  table.title = "Candidate against baseline";
  table.header = {"scheme",       "trained at",    "seed",   "extension", "length",  "protocol",
                  "baseline ppl", "candidate ppl", "Δ nats", "Δ ppl",     "verdict", "reason"};
  constexpr Align kL = Align::kLeft, kR = Align::kRight;
  table.align = {kL, kR, kR, kL, kR, kL, kR, kR, kR, kR, kL, kL};
  for (const ComparisonRow& row : comparison.rows) table.rows.push_back(reader_line(row));
  const auto has = [&](bool paired) {
    return std::ranges::any_of(comparison.rows,
                               [&](const ComparisonRow& row) { return row.difference_stderr && row.paired == paired; });
  };
  table.notes.push_back("Δ: candidate minus baseline; above zero is worse.");
  if (has(true)) table.notes.push_back("±: one standard error of the difference, paired over the same windows.");
  if (has(false))
    table.notes.push_back(
        "± … unpaired: from the two standard errors as if independent; too wide where the windows are the same.");
  add_notes(table, comparison);
  return table;
}

std::string percent(const std::string& status, std::optional<double> share) {
  return status == "ok" && share ? fmt::format("{:.1f}", 100 * *share) : status;
}

Table accuracy_table(const Comparison& comparison) {
  Table table;
  table.title = "Right answers in %, candidate against baseline";
  table.header = {"task",     "scheme",    "seed",     "extension", "length", "depth",
                  "baseline", "candidate", "Δ points", "verdict",   "reason"};
  constexpr Align kL = Align::kLeft, kR = Align::kRight;
  table.align = {kL, kL, kR, kL, kR, kR, kR, kR, kR, kL, kL};
  for (const AccuracyComparison& row : comparison.accuracy) {
    const std::string difference =
        row.difference ? fmt::format("{:+.1f} ± {:.1f}", 100 * *row.difference, 100 * *row.difference_stderr) : "-";
    table.rows.push_back({row.task, row.scheme, std::to_string(row.seed), row.extension, std::to_string(row.length),
                          row.depth ? fmt::format("{}", *row.depth) : "", percent(row.baseline, row.baseline_exact),
                          percent(row.candidate, row.candidate_exact), difference, row.verdict, row.reason});
  }
  table.notes = {"Δ: candidate minus baseline; below zero is worse. ±: one standard error, as if the questions were others."};
  return table;
}

Table accuracy_csv_table(const Comparison& comparison) {
  Table table;
  table.header = {"scheme",
                  "task",
                  "seed",
                  "extension",
                  "length",
                  "depth",
                  "baseline_exact_match",
                  "candidate_exact_match",
                  "difference",
                  "difference_stderr",
                  "verdict",
                  "reason"};
  for (const AccuracyComparison& row : comparison.accuracy) {
    const auto exact = [](const std::string& status, std::optional<double> share) {
      return share ? exact_number(share) : status;
    };
    table.rows.push_back({row.scheme, row.task, std::to_string(row.seed), row.extension, std::to_string(row.length),
                          exact_number(row.depth), exact(row.baseline, row.baseline_exact),
                          exact(row.candidate, row.candidate_exact), exact_number(row.difference),
                          exact_number(row.difference_stderr), row.verdict, row.reason});
  }
  return table;
}

void add_verdict(Table& table, const Comparison& comparison) {
  std::vector<std::string> last(table.header.size());
  last.front() = "(all)";
  last[last.size() - 2] = fmt::format("exit {}", static_cast<int>(comparison.verdict));
  last.back() = verdict_line(comparison);
  for (const std::string& problem : comparison.problems) last.back() += "; " + problem;
  table.rows.push_back(std::move(last));
}

Table csv_table(const Comparison& comparison) {
  Table table;
  table.header = {"scheme",   "train_length", "seed",          "extension",       "length",
                  "protocol", "baseline_ppl", "candidate_ppl", "difference_nats", "difference_stderr",
                  "paired",   "relative_ppl", "verdict",       "reason"};
  for (const ComparisonRow& row : comparison.rows) {
    table.rows.push_back({row.scheme, std::to_string(row.train_length), std::to_string(row.seed), row.extension,
                          std::to_string(row.length), row.protocol, exact_ppl_text(row.baseline, row.baseline_ppl),
                          exact_ppl_text(row.candidate, row.candidate_ppl), exact_number(row.difference),
                          exact_number(row.difference_stderr), row.paired ? "true" : "false", exact_number(row.relative_ppl),
                          row.verdict, row.reason});
  }
  return table;
}

Json number(std::optional<double> value) { return value && std::isfinite(*value) ? Json(*value) : Json(nullptr); }

Json comparison_json(const Comparison& comparison) {
  Json json = {{"schema", "posenc.comparison/1"}, {"rows", Json::array()}, {"accuracy", Json::array()}, {"gates", Json::array()}};
  for (const ComparisonRow& row : comparison.rows) {
    json["rows"].push_back({{"scheme", row.scheme},
                            {"train_length", row.train_length},
                            {"seed", row.seed},
                            {"extension", row.extension},
                            {"length", row.length},
                            {"protocol", row.protocol},
                            {"baseline", row.baseline},
                            {"candidate", row.candidate},
                            {"baseline_ppl", number(row.baseline_ppl)},
                            {"candidate_ppl", number(row.candidate_ppl)},
                            {"difference_nats", number(row.difference)},
                            {"difference_stderr", number(row.difference_stderr)},
                            {"paired", row.paired},
                            {"relative_ppl", number(row.relative_ppl)},
                            {"verdict", row.verdict},
                            {"reason", row.reason}});
  }
  for (const AccuracyComparison& row : comparison.accuracy) {
    json["accuracy"].push_back({{"scheme", row.scheme},
                                {"task", row.task},
                                {"seed", row.seed},
                                {"extension", row.extension},
                                {"length", row.length},
                                {"depth", number(row.depth)},
                                {"baseline", row.baseline},
                                {"candidate", row.candidate},
                                {"baseline_exact_match", number(row.baseline_exact)},
                                {"candidate_exact_match", number(row.candidate_exact)},
                                {"difference", number(row.difference)},
                                {"difference_stderr", number(row.difference_stderr)},
                                {"verdict", row.verdict},
                                {"reason", row.reason}});
  }
  for (const GateUse& use : comparison.gates)
    json["gates"].push_back({{"gate", use.gate.text}, {"cells", use.cells}, {"failed", use.failed}});
  json["notes"] = comparison.notes;
  json["problems"] = comparison.problems;
  json["exit"] = static_cast<int>(comparison.verdict);
  json["summary"] = verdict_line(comparison);
  return json;
}

}  // namespace

std::string verdict_line(const Comparison& comparison) {
  const auto count = [&](const std::string& verdict) {
    return std::ranges::count(comparison.rows, verdict, &ComparisonRow::verdict) +
           std::ranges::count(comparison.accuracy, verdict, &AccuracyComparison::verdict);
  };
  const auto has_both = [](const auto& row) { return row.difference.has_value(); };
  const auto compared = std::ranges::count_if(comparison.rows, has_both) + std::ranges::count_if(comparison.accuracy, has_both);
  const std::string regressed =
      fmt::format("{} of {} cells broke a gate", count("regressed"), comparison.rows.size() + comparison.accuracy.size());
  const int exit = static_cast<int>(comparison.verdict);
  if (comparison.verdict == ExitCode::kGateFailed) return fmt::format("regressed: {} (exit {})", regressed, exit);
  if (comparison.verdict == ExitCode::kOk) {
    return fmt::format("ok: {} cells compared, {} improved, {} new (exit {})", compared, count("improved"), count("new"), exit);
  }
  const std::string also = count("regressed") > 0 ? "; also regressed: " + regressed : "";
  return fmt::format("comparison not possible: {} problem{}{} (exit {})", comparison.problems.size(),
                     comparison.problems.size() == 1 ? "" : "s", also, exit);
}

std::string format_comparison(const Comparison& comparison, const std::string& format) {
  require_format(format);
  if (format == "json") return dump_json(comparison_json(comparison));
  const bool tasks = !comparison.accuracy.empty();
  if (format == "csv") {
    if (tasks && !comparison.rows.empty()) throw ConfigError("csv has one kind of row: compare text and tasks apart, or as json");
    Table table = tasks ? accuracy_csv_table(comparison) : csv_table(comparison);
    add_verdict(table, comparison);
    return render(table, format);
  }
  const std::string line = "verdict: " + verdict_line(comparison);
  std::string tables;
  if (tasks && comparison.rows.empty()) {
    Table table = accuracy_table(comparison);
    add_notes(table, comparison);
    tables = render(table, format);
  } else {
    tables = render(reader_table(comparison), format) + (tasks ? "\n" + render(accuracy_table(comparison), format) : "");
  }
  return tables + "\n" + (format == "md" ? "**" + line + "**" : line) + "\n";
}

}  // namespace posenc
