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
  for (const GateUse& use : comparison.gates) {
    table.notes.push_back(fmt::format("Fails on {}: applied to {} cells, broken by {}.", use.gate.text, use.cells, use.failed));
  }
  for (const std::string& note : comparison.notes) table.notes.push_back(note);
  for (const std::string& problem : comparison.problems) table.notes.push_back("Problem: " + problem);
  return table;
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
  std::vector<std::string> last(table.header.size());
  last.front() = "(all)";
  last[last.size() - 2] = fmt::format("exit {}", static_cast<int>(comparison.verdict));
  last.back() = verdict_line(comparison);
  for (const std::string& problem : comparison.problems) last.back() += "; " + problem;
  table.rows.push_back(std::move(last));
  return table;
}

Json number(std::optional<double> value) { return value && std::isfinite(*value) ? Json(*value) : Json(nullptr); }

Json comparison_json(const Comparison& comparison) {
  Json json = {{"schema", "posenc.comparison/1"}, {"rows", Json::array()}, {"gates", Json::array()}};
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
    return std::ranges::count(comparison.rows, verdict, &ComparisonRow::verdict);
  };
  const auto compared =
      std::ranges::count_if(comparison.rows, [](const ComparisonRow& row) { return row.difference.has_value(); });
  const std::string regressed = fmt::format("{} of {} cells broke a gate", count("regressed"), comparison.rows.size());
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
  if (format == "csv") return render(csv_table(comparison), format);
  const std::string line = "verdict: " + verdict_line(comparison);
  return render(reader_table(comparison), format) + "\n" + (format == "md" ? "**" + line + "**" : line) + "\n";
}

}  // namespace posenc
