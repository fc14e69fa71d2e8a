#include "report/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <clocale>
#include <cmath>
#include <fstream>
#include <locale>
#include <numbers>

#include "core/error.h"
#include "report/sample_runs.h"

namespace posenc {
namespace {

using ::testing::AllOf;
using testing::cell_with;
using testing::cell_without;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::run_with;
using testing::run_without;

Json report_of(const std::vector<Results>& runs) { return parse_json(format_report(runs, "json"), "report.json").root; }

/// The line of the first table that starts with `name` and a blank.
std::string line_of(const std::string& text, const std::string& name) {
  const std::size_t at = text.find("\n" + name + " ");
  return at == std::string::npos ? "" : text.substr(at + 1, text.find('\n', at + 1) - at - 1);
}

// exp(ln 4) ± 4 · 0.01: the delta method.
TEST(Report, ShowsTheStandardErrorOverWindowsForOneSeed) {
  const std::vector<Results> runs = {run_with("rope", 1, {cell_with(128, std::log(4.0)), cell_with(256, std::log(8.0))})};
  const std::string text = format_report(runs, "text");
  EXPECT_EQ(line_of(text, "rope"), "rope    4.000 \u00b1 0.040  8.000 \u00b1 0.080");
  EXPECT_THAT(text, HasSubstr("\u00b1: one standard error over the evaluation windows of one seed (n = 1)."));
  const Json row = report_of(runs)["rows"][0];
  EXPECT_NEAR(row["ppl_stderr"].get<double>(), 0.04, 1e-12);
  EXPECT_EQ(row["nll_stderr"], 0.01);
  EXPECT_NEAR(row["bits_per_byte_stderr"].get<double>(), 0.014427, 1e-6);  // 0.01 / ln 2
  EXPECT_TRUE(row["ppl_half_width"].is_null());
}

// Perplexities 4, 5, 6: mean 5, standard deviation 1; t(0.975, 2) = 4.302653 (any table), so ± 4.302653 / √3 = 2.484138.
TEST(Report, ShowsTheTIntervalOverSeedsWithTheirNumber) {
  std::vector<Results> runs;
  for (const int seed : {1, 2, 3}) runs.push_back(run_with("rope", seed, {cell_with(128, std::log(3.0 + seed))}));
  const Json row = report_of(runs)["rows"][0];
  EXPECT_EQ(row["n"], 3);
  EXPECT_NEAR(row["ppl_mean"].get<double>(), 5, 1e-12);
  EXPECT_NEAR(row["ppl_half_width"].get<double>(), 2.484138, 1e-5);
  EXPECT_TRUE(row["ppl_stderr"].is_null());
  const std::string text = format_report(runs, "text");
  EXPECT_EQ(line_of(text, "rope"), "rope    5.000 \u00b1 2.484");
  EXPECT_THAT(text, HasSubstr("Mean over n = 3 seeds; \u00b1: half width of the 95 % t interval"));
}

TEST(Report, MarksACellWithFewerSeedsAndSaysWhatBecameOfTheOthers) {
  const std::vector<Results> runs = {
      run_with("rope", 1, {cell_with(128, std::log(4.0))}), run_with("rope", 2, {cell_with(128, std::log(4.0))}),
      run_with("alibi", 1, {cell_with(128, std::log(4.0))}), run_without("alibi", 2, "diverged", "loss is NaN at step 812")};
  const std::string text = format_report(runs, "text");
  EXPECT_EQ(line_of(text, "alibi"), "alibi   4.000 \u00b1 0.040 (n=1)");
  EXPECT_THAT(text, HasSubstr("alibi at 128: seed 2 diverged: loss is NaN at step 812"));
  EXPECT_EQ(report_of(runs)["rows"][1]["status"], "partial");
}

// Faults 117 and 118: failed runs are rows with their reasons, beside the finished ones; never blank, never zero.
TEST(Report, ShowsEveryFailedRunWithItsReason) {
  const std::vector<Results> runs = {
      run_with(
          "rope", 1,
          {cell_with(128, 1.5), cell_without(256, "refused", "base too small"), cell_without(512, "failed", "out of memory")}),
      run_without("alibi", 1, "diverged", "loss is NaN at step 812"), run_without("nope", 1, "unfinished", "no results.json"),
      run_with("learned", 1, {cell_with(128, 1.5), cell_without(256, "refused", "the table ends at 128")})};
  const std::string text = format_report(runs, "text");
  EXPECT_THAT(line_of(text, "rope"), AllOf(HasSubstr("refused"), HasSubstr("failed")));
  EXPECT_EQ(line_of(text, "alibi"), "alibi         diverged    diverged    diverged");
  EXPECT_THAT(line_of(text, "nope"), HasSubstr("unfinished"));
  EXPECT_THAT(line_of(text, "learned"), HasSubstr("not run"));
  for (const char* reason :
       {"rope at 256: refused: base too small", "rope at 512: failed: out of memory",
        "learned at 256: refused: the table ends at 128", "alibi at 128, 256, 512: diverged: loss is NaN at step 812",
        "nope at 128, 256, 512: unfinished: no results.json"}) {
    EXPECT_THAT(text, HasSubstr(reason));
  }
  EXPECT_THAT(
      format_report(runs, "csv"),
      HasSubstr("alibi,alibi,none,128,fixed_target,byte,test,abc123,128,0,0,0,0,diverged,,,diverged,,,diverged,,,diverged,"));
}

// Fault 118: all runs failed, for three different reasons.
TEST(Report, ShowsThreeReasonsWhenNothingFinished) {
  const std::vector<Results> runs = {run_without("rope", 1, "diverged", "loss is NaN at step 3"),
                                     run_without("alibi", 1, "failed", "no space left"),
                                     run_without("nope", 1, "unfinished", "no results.json")};
  for (const char* format : {"text", "md", "csv", "json"}) {
    const std::string text = format_report(runs, format);
    for (const char* part : {"diverged", "loss is NaN at step 3", "no space left", "unfinished", "no results.json"})
      EXPECT_THAT(text, HasSubstr(part)) << format;
  }
}

// Faults 52 and 54: unit, protocol, window, stride and number of targets stand under the table.
TEST(Report, StatesWhatTheNumbersMean) {
  std::vector<Results> runs = {run_with("rope", 1, {cell_with(128, 1.5), cell_with(256, 1.5)})};
  runs[0].unit = "char";
  for (Cell& cell : runs[0].cells) cell.bits_per_byte.reset();
  const std::string text = format_report(runs, "text");
  EXPECT_THAT(text, HasSubstr("Perplexity per char, trained at 128, fixed_target, by evaluation length"));
  EXPECT_THAT(text, HasSubstr("Protocol fixed_target: the same last targets of every window"));
  EXPECT_THAT(text, HasSubstr("Unit: char. Split: test. Targets: 4096. Window: the length. Stride: 64. Protocol hash: abc123."));
  EXPECT_THAT(text, Not(HasSubstr("Bits per byte")));
}

// Fault 52: per-byte 2 nats are 2 / ln 2 = 2.885 bits per byte and perplexity e² = 7.389, each under its own name.
TEST(Report, AddsBitsPerByteForBytes) {
  const std::string text = format_report({run_with("rope", 1, {cell_with(128, 2.0)})}, "text");
  EXPECT_THAT(text, HasSubstr("Perplexity per byte, trained at 128"));
  EXPECT_THAT(text, HasSubstr("7.389 \u00b1 0.074"));
  EXPECT_THAT(text, HasSubstr("Bits per byte, trained at 128"));
  EXPECT_THAT(text, HasSubstr("2.885 \u00b1 0.014"));
}

// Fault 54: numbers under unlike protocols never share a table or a mean.
TEST(Report, KeepsUnlikeProtocolsApart) {
  std::vector<Results> runs = {run_with("rope", 1, {cell_with(128, 1.0)}), run_with("rope", 2, {cell_with(128, 2.0)})};
  runs[1].protocol_hash = "def456";
  const Json rows = report_of(runs)["rows"];
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0]["n"], 1);
  EXPECT_EQ(rows[0]["nll_mean"], 1.0);
  EXPECT_EQ(rows[1]["protocol_hash"], "def456");
}

TEST(Report, TellsRunsOfOneSchemeAndSeedApartByTheirNames) {
  std::vector<Results> runs = {run_with("rope", 1, {cell_with(128, 1.0)}), run_with("rope", 1, {cell_with(128, 2.0)})};
  runs[0].name = "base-1e4", runs[1].name = "base-1e6";
  const Json rows = report_of(runs)["rows"];
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0]["label"], "rope (base-1e4)");
  EXPECT_EQ(rows[1]["label"], "rope (base-1e6)");
  EXPECT_EQ(rows[1]["n"], 1);
}

TEST(Report, PutsExtensionsInRowsOfTheirOwn) {
  const std::string text =
      format_report({run_with("rope", 1, {cell_with(128, 1.5), cell_with(128, 1.0, "fixed_target", "yarn")})}, "text");
  EXPECT_THAT(text, HasSubstr("\nrope + yarn  2.718 \u00b1 0.027"));
}

// Faults 46 and 47: a cell's number is the loss it was given, that of all its targets, whatever its windows are. 100 targets
// at 1.0 and 10 at 3.0 have the mean 130/110 and the perplexity 3.2602966; the mean of the window means would say e² = 7.389.
TEST(Report, TakesTheLossPerTargetNotTheMeanOfWindows) {
  Results run = run_with("rope", 1, {cell_with(128, 130.0 / 110.0)});
  run.cells[0].window_nll = {1.0, 3.0};
  EXPECT_NEAR(report_of({run})["rows"][0]["ppl_mean"].get<double>(), 3.2602966, 1e-7);
  EXPECT_THAT(format_report({run}, "text"), HasSubstr("3.260 \u00b1"));
}

// Fault 50, fault 124.
TEST(Report, ShowsAHugePerplexityToPeopleAsSuchAndToMachinesExactly) {
  const std::vector<Results> runs = {run_with("rope", 1, {cell_with(128, 100), cell_with(256, 800)})};
  EXPECT_THAT(line_of(format_report(runs, "text"), "rope"), ::testing::MatchesRegex("rope +>1e3 +>1e3"));
  const Json rows = report_of(runs)["rows"];
  EXPECT_NEAR(rows[0]["ppl_mean"].get<double>() / 2.6881171418161356e43, 1, 1e-12);
  EXPECT_TRUE(rows[1]["ppl_mean"].is_null());
  EXPECT_EQ(rows[1]["nll_mean"], 800.0);
  EXPECT_EQ(rows[1]["reason"], "perplexity overflows");
  EXPECT_THAT(format_report(runs, "csv"), AllOf(HasSubstr("2.68811714181613"), HasSubstr(",overflow,")));
}

TEST(Report, ShowsTheLossByPositionAtTheLongestLength) {
  Results run = run_with("rope", 1, {cell_with(128, 1.5)});
  run.by_position = {{"none", 128, 0, 1, 64, 9.0, 0.1},
                     {"none", 256, 0, 1, 64, 3.5, 0.02},
                     {"none", 256, 1, 4, 192, 2.25, 0.0125},
                     {"none", 256, 4, 8, 256, std::nullopt, std::nullopt}};
  const std::string text = format_report({run}, "text");
  EXPECT_THAT(text, HasSubstr("NLL by offset in windows of 256, nats per byte, trained at 128"));
  EXPECT_THAT(text, HasSubstr("scheme      0    1-3     4-7\nrope    3.500  2.250  failed\n"));
  EXPECT_THAT(text, HasSubstr("at most 0.020 nats"));
  EXPECT_THAT(text, Not(HasSubstr("9.000")));
}

TEST(Report, IsReadableAgainAsResults) {
  Results run = run_with("rope", 7, {cell_with(128, 1.5), cell_without(256, "refused", "too long")});
  run.cells[0].window_nll = {1.4, 1.6};
  const std::string path = ::testing::TempDir() + "posenc_report_again.json";
  std::ofstream(path) << format_report({run, run_without("alibi", 1, "diverged", "NaN")}, "json");
  const auto again = load_results(path);
  std::filesystem::remove(path);
  ASSERT_EQ(again.size(), 2u);
  EXPECT_EQ(again[0].seed, 7);
  EXPECT_EQ(*again[0].cells[0].nll, 1.5);
  EXPECT_TRUE(again[0].cells[0].window_nll.empty());
  EXPECT_EQ(again[0].cells[1].reason, "too long");
  EXPECT_EQ(again[1].status, "diverged");
}

TEST(Report, RefusesAnUnknownFormatAndAnEmptyList) {
  EXPECT_THROW(format_report({run_with("rope", 1, {})}, "html"), ConfigError);
  EXPECT_THROW(format_report({}, "text"), ConfigError);
}

// Fault 128 end to end: a hostile run name in every row that shows it.
TEST(Report, KeepsMarkdownRowsWholeUnderHostileNames) {
  Results run = run_without("a|b", 1, "failed", "x | y\nz");
  run.name = "n`|\n";
  const std::string text = format_report({run}, "md");
  EXPECT_THAT(text, HasSubstr("| n\\`\\|  | a\\|b | 128 | 1 | failed | x \\| y z |\n"));
}

/// A process-wide locale in which 1234.5 is written 1.234,5.
class Commas : public std::numpunct<char> {
  char do_decimal_point() const override { return ','; }
  char do_thousands_sep() const override { return '.'; }
  std::string do_grouping() const override { return "\3"; }
};

// Fault 126: a locale with decimal commas.
TEST(Report, IsTheSameUnderALocaleWithCommas) {
  const std::vector<Results> runs = {run_with("rope", 1, {cell_with(128, 1.5), cell_with(2048, 6.5)})};
  std::vector<std::string> plain, commas;
  for (const char* format : {"text", "md", "csv", "json"}) plain.push_back(format_report(runs, format));
  const std::locale before = std::locale::global(std::locale(std::locale::classic(), new Commas));
  for (const char* name : {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8"}) {
    if (std::setlocale(LC_ALL, name)) break;
  }
  for (const char* format : {"text", "md", "csv", "json"}) commas.push_back(format_report(runs, format));
  const double reread = *results_from_json(parse_json(commas[3], "report.json").root["runs"][0], "report.json").cells[0].nll;
  std::locale::global(before);
  std::setlocale(LC_ALL, "C");
  EXPECT_EQ(plain, commas);
  EXPECT_EQ(reread, 1.5);
}

TEST(RunTable, ShowsEveryProtocolAndExtensionOfOneRun) {
  const Results run =
      run_with("rope", 1,
               {cell_with(128, std::log(4.0)), cell_with(256, std::log(8.0)), cell_with(128, std::log(4.0), "nonoverlapping"),
                cell_with(128, std::log(2.0), "fixed_target", "yarn"), cell_without(512, "refused", "too long")});
  const std::string text = format_run_table(run);
  EXPECT_THAT(text, HasSubstr("rope-1 (rope), trained at 128, seed 1"));
  EXPECT_THAT(text, HasSubstr("fixed_target    none       ppl per byte   4.000 \u00b1 0.040  8.000 \u00b1 0.080  refused\n"));
  EXPECT_THAT(text, HasSubstr("fixed_target    none       bits per byte  2.000 \u00b1 0.014  3.000 \u00b1 0.014  refused\n"));
  EXPECT_THAT(text, HasSubstr("fixed_target    yarn       ppl per byte   2.000 \u00b1 0.020        not run  not run\n"));
  EXPECT_THAT(text, HasSubstr("nonoverlapping  none       ppl per byte   4.000 \u00b1 0.040        not run  not run\n"));
  EXPECT_THAT(text, HasSubstr("rope at 512: refused: too long"));
}

TEST(RunTable, SaysWhyARunHasNoNumbers) {
  EXPECT_THAT(format_run_table(run_without("rope", 1, "diverged", "loss is NaN at step 3")),
              HasSubstr("This run is diverged: loss is NaN at step 3."));
}

}  // namespace
}  // namespace posenc
