#include "report/compare.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>

#include "core/error.h"
#include "report/sample_runs.h"

namespace posenc {
namespace {

using ::testing::AllOf;
using testing::cell_with;
using testing::cell_without;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::run_with;
using testing::run_without;

using Runs = std::vector<Results>;

/// rope and alibi at 128 and 256, perplexity 100 each times `factor`.
Runs two_schemes(double factor = 1) {
  const double nll = std::log(100 * factor);
  return {run_with("rope", 1, {cell_with(128, nll), cell_with(256, nll)}),
          run_with("alibi", 1, {cell_with(128, nll), cell_with(256, nll)})};
}

Runs one(double ppl) { return {run_with("rope", 1, {cell_with(512, std::log(ppl))})}; }

ExitCode with_gate(const Runs& baseline, const Runs& candidate, const std::string& gate) {
  return compare(baseline, candidate, {parse_gate(gate)}).verdict;
}

// 102 / 100 is 2 %, 102.1 / 100 is more.
TEST(Compare, FailsAboveTwoPercentWhenNoGateIsGiven) {
  EXPECT_EQ(compare(one(100), one(100)).verdict, ExitCode::kOk);
  EXPECT_EQ(compare(one(100), one(102)).verdict, ExitCode::kOk);
  const Comparison worse = compare(one(100), one(102.1));
  EXPECT_EQ(worse.verdict, ExitCode::kGateFailed);
  EXPECT_EQ(worse.rows[0].verdict, "regressed");
  EXPECT_EQ(worse.rows[0].reason, "breaks ppl>+2%, nll>+0.02");
  EXPECT_NEAR(*worse.rows[0].relative_ppl, 0.021, 1e-12);
  EXPECT_NEAR(*worse.rows[0].difference, 0.0207825, 1e-6);  // ln 1.021
}

TEST(Compare, LetsAnImprovementPass) {
  const Comparison better = compare(one(100), one(90));
  EXPECT_EQ(better.verdict, ExitCode::kOk);
  EXPECT_EQ(better.rows[0].verdict, "improved");
  EXPECT_EQ(compare(one(100), one(99)).rows[0].verdict, "ok");
}

TEST(Compare, AppliesEachKindOfGate) {
  EXPECT_EQ(with_gate(one(100), one(101.1), "nll>+0.01"), ExitCode::kGateFailed);  // ln 1.011 = 0.01094
  EXPECT_EQ(with_gate(one(100), one(100.9), "nll>+0.01"), ExitCode::kOk);          // ln 1.009 = 0.00896
  EXPECT_EQ(with_gate(one(100), one(31), "ppl@512>30"), ExitCode::kGateFailed);
  EXPECT_EQ(with_gate(one(20), one(30), "ppl@512>30"), ExitCode::kOk);
  EXPECT_EQ(with_gate(one(100), one(106), "ppl>+5"), ExitCode::kGateFailed);
  EXPECT_EQ(with_gate(one(100), one(104), "ppl>+5"), ExitCode::kOk);
  EXPECT_EQ(with_gate(one(100), one(100), "ppl>-1%"), ExitCode::kGateFailed);  // must improve
  EXPECT_EQ(with_gate(one(100), one(98), "ppl>-1%"), ExitCode::kOk);
  EXPECT_EQ(with_gate(one(4), one(8), "bpb>+0.9"), ExitCode::kGateFailed);  // log2 4 = 2, log2 8 = 3
  EXPECT_EQ(with_gate(one(4), one(8), "bpb>+1.1"), ExitCode::kOk);
}

// Fault 50: an overflow is the worst perplexity, not a comparison that is silently false.
TEST(Compare, FailsWhenThePerplexityOverflows) {
  const Runs overflow = {run_with("rope", 1, {cell_with(512, 800)})};
  EXPECT_EQ(compare(one(100), overflow).verdict, ExitCode::kGateFailed);
  EXPECT_EQ(with_gate(one(100), overflow, "ppl>30"), ExitCode::kGateFailed);
  EXPECT_EQ(with_gate(overflow, overflow, "ppl>+5"), ExitCode::kGateFailed);
  EXPECT_THAT(format_comparison(compare(one(100), overflow), "text"), HasSubstr(">1e3"));
}

// Fault 130: the baseline has alibi at 256, the candidate lacks it.
TEST(Compare, NamesTheCellsThatWereLost) {
  Runs fewer = two_schemes();
  fewer[1].cells.pop_back();
  const Comparison lost = compare(two_schemes(), fewer);
  EXPECT_EQ(lost.verdict, ExitCode::kNotComparable);
  EXPECT_THAT(
      lost.problems,
      ElementsAre("alibi, trained at 128, seed 1, extension none, length 256, fixed_target: the candidate has no such cell"));
  const Comparison run_lost = compare(two_schemes(), {two_schemes()[0]});
  EXPECT_EQ(run_lost.verdict, ExitCode::kNotComparable);
  EXPECT_EQ(run_lost.problems.size(), 2u);
  EXPECT_THAT(run_lost.problems[0], AllOf(HasSubstr("alibi"), HasSubstr("length 128"), HasSubstr("no such run")));
}

// Fault 130: a number that became NaN, null, refused or failed is lost as well.
TEST(Compare, TakesACandidateWithoutANumberAsLost) {
  Runs nan = two_schemes();
  nan[0].cells[1].nll = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(compare(two_schemes(), nan).verdict, ExitCode::kNotComparable);
  Runs refused = two_schemes();
  refused[0].cells[1] = cell_without(256, "refused", "too long");
  const Comparison lost = compare(two_schemes(), refused);
  EXPECT_EQ(lost.verdict, ExitCode::kNotComparable);
  EXPECT_EQ(lost.rows[1].verdict, "missing");
  EXPECT_THAT(lost.problems[0], HasSubstr("candidate is refused: too long"));
  const Comparison diverged = compare(two_schemes(), {two_schemes()[0], run_without("alibi", 1, "diverged", "NaN at step 9")});
  EXPECT_EQ(diverged.verdict, ExitCode::kNotComparable);
  EXPECT_THAT(diverged.problems[0], HasSubstr("run is diverged: NaN at step 9"));
}

// Fault 130: no baseline file. And one that no parser reads.
TEST(Compare, CannotCompareWithAFileItCannotRead) {
  const auto folder = std::filesystem::path(::testing::TempDir()) / "posenc_compare";
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "good.json") << dump_json(results_to_json(one(100)[0]));
  std::ofstream(folder / "nan.json") << R"({"schema": "posenc.results/1", "cells": [{"nll": NaN}]})";
  EXPECT_EQ(compare_paths(folder / "good.json", folder / "good.json").verdict, ExitCode::kOk);
  const Comparison absent = compare_paths(folder / "absent.json", folder / "good.json");
  EXPECT_EQ(absent.verdict, ExitCode::kNotComparable);
  EXPECT_THAT(absent.problems, ElementsAre(AllOf(HasSubstr("the baseline cannot be read"), HasSubstr("absent.json"))));
  EXPECT_EQ(compare_paths(folder / "good.json", folder / "absent.json").verdict, ExitCode::kNotComparable);
  EXPECT_EQ(compare_paths(folder / "good.json", folder / "nan.json").verdict, ExitCode::kNotComparable);
  std::filesystem::remove_all(folder);
}

// Fault 54: unlike protocols.
TEST(Compare, RefusesUnlikeProtocols) {
  Runs other = one(100);
  other[0].protocol_hash = "def456";
  const Comparison unlike = compare(one(100), other);
  EXPECT_EQ(unlike.verdict, ExitCode::kNotComparable);
  EXPECT_EQ(unlike.rows[0].verdict, "not comparable");
  EXPECT_THAT(unlike.problems[0], AllOf(HasSubstr("abc123"), HasSubstr("def456")));
  Runs half_stride = one(100);
  half_stride[0].cells[0].stride = 32;
  EXPECT_THAT(compare(one(100), half_stride).problems,
              ElementsAre(HasSubstr("window, stride, targets differ: 512, 64, 4096 and 512, 32, 4096"),
                          HasSubstr("ppl>+2% matches no cell"), HasSubstr("nll>+0.02 matches no cell")));
  Runs per_char = one(100);
  per_char[0].unit = "char";
  EXPECT_THAT(compare(one(100), per_char).problems[0], HasSubstr("unit differs: byte and char"));
  Runs unknown = one(100);
  unknown[0].protocol_hash = "";
  EXPECT_EQ(compare(unknown, unknown).verdict, ExitCode::kNotComparable);
}

// Fault 130: a gate whose pattern matches nothing passes for ever.
TEST(Compare, RefusesAGateThatCouldNeverFail) {
  for (const char* gate : {"ppl@333>+2%", "ppl@rpoe>+2%", "ppl@sliding>30"}) {
    const Comparison idle = compare(one(100), one(100), {parse_gate("ppl>+2%"), parse_gate(gate)});
    EXPECT_EQ(idle.verdict, ExitCode::kNotComparable) << gate;
    EXPECT_THAT(idle.problems, ElementsAre(AllOf(HasSubstr(gate), HasSubstr("could never fail"))));
  }
  const Runs refused = {run_with("rope", 1, {cell_without(512, "refused", "too long")})};
  EXPECT_EQ(compare(refused, refused).verdict, ExitCode::kNotComparable);
}

TEST(Compare, NeedsACellInCommon) {
  EXPECT_THAT(compare(one(100), {run_with("rope", 1, {})}).problems, Contains(HasSubstr("no such cell")));
  EXPECT_THAT(compare({run_with("rope", 1, {})}, one(100)).problems, ElementsAre(HasSubstr("no cell in common")));
  EXPECT_EQ(compare({}, one(100)).verdict, ExitCode::kNotComparable);
  EXPECT_EQ(compare({}, {}).verdict, ExitCode::kNotComparable);
}

TEST(Compare, TakesCellsRefusedInBothAsEqualAndNewNumbersAsNoFailure) {
  Runs before = two_schemes(), after = two_schemes();
  before[0].cells[1] = after[0].cells[1] = cell_without(256, "refused", "too long");
  before[1].cells[1] = cell_without(256, "refused", "too long");
  after[1].cells.push_back(cell_with(512, 1.0));
  const Comparison out = compare(before, after);
  EXPECT_EQ(out.verdict, ExitCode::kOk);
  ASSERT_EQ(out.rows.size(), 5u);
  EXPECT_EQ(out.rows[1].verdict, "ok");
  EXPECT_EQ(out.rows[1].reason, "refused in both");
  EXPECT_EQ(out.rows[3].verdict, "new");
  EXPECT_THAT(out.rows[3].reason, HasSubstr("baseline is refused"));
  EXPECT_EQ(out.rows[4].verdict, "new");
  EXPECT_EQ(out.rows[4].length, 512);
}

TEST(Compare, HoldsANewNumberToAnAbsoluteGate) {
  Runs before = one(100);
  before[0].cells[0] = cell_without(512, "diverged", "NaN");
  EXPECT_EQ(with_gate(before, one(100), "ppl>30"), ExitCode::kGateFailed);
}

TEST(Compare, DoesNotTakeAFailureForARefusal) {
  Runs before = two_schemes(), after = two_schemes();
  before[0].cells[1] = cell_without(256, "refused", "too long");
  after[0].cells[1] = cell_without(256, "failed", "out of memory");
  const Comparison out = compare(before, after);
  EXPECT_EQ(out.verdict, ExitCode::kNotComparable);
  EXPECT_EQ(out.rows[1].verdict, "not comparable");
}

// Fault 118: a run that is on neither side's list of numbers is still named.
TEST(Compare, NotesRunsWithoutNumbers) {
  Runs both = two_schemes();
  both.push_back(run_without("nope", 1, "diverged", "NaN at step 9"));
  const Comparison out = compare(both, both);
  EXPECT_EQ(out.verdict, ExitCode::kOk);
  EXPECT_THAT(out.notes, ElementsAre(AllOf(HasSubstr("baseline's run nope-1"), HasSubstr("is diverged: NaN at step 9")),
                                     HasSubstr("candidate's run nope-1")));
}

TEST(Compare, ReportsARegressionBesideAnImpossibleComparison) {
  Runs after = two_schemes(1.05);
  after[1].cells.pop_back();
  const Comparison both = compare(two_schemes(), after);
  EXPECT_EQ(both.verdict, ExitCode::kNotComparable);
  EXPECT_EQ(verdict_line(both), "comparison not possible: 1 problem; also regressed: 3 of 4 cells broke a gate (exit 3)");
}

TEST(Compare, JoinsASingleRunWithASingleRunAndSaysSo) {
  Runs other = {run_with("alibi", 2, {cell_with(512, std::log(90.0))})};
  const Comparison out = compare(one(100), other);
  EXPECT_EQ(out.verdict, ExitCode::kOk);
  EXPECT_EQ(out.rows[0].scheme, "rope -> alibi");
  EXPECT_THAT(out.notes, ElementsAre(AllOf(HasSubstr("rope-1"), HasSubstr("alibi-2"))));
  EXPECT_THAT(compare(one(100), one(100)).notes, IsEmpty());
}

TEST(Compare, JoinsRunsThatShareASeedByName) {
  Runs runs = {one(100)[0], one(50)[0]};
  runs[0].name = "base-1e4", runs[1].name = "base-1e6";
  EXPECT_EQ(compare(runs, {runs[1], runs[0]}).verdict, ExitCode::kOk);
  runs[1].name = runs[0].name;
  EXPECT_THAT(compare(runs, runs).problems[0], HasSubstr("the baseline has two runs"));
}

// Differences 0.1, 0.1, 0.3, 0.3: mean 0.2, variance 0.04 / 3, standard error √(0.04 / 3 / 4) = 0.057735.
TEST(Compare, PairsTheWindowsWhenBothHaveThem) {
  Runs before = {run_with("rope", 1, {cell_with(512, 1.5)})}, after = {run_with("rope", 1, {cell_with(512, 1.7)})};
  before[0].cells[0].window_nll = {1.0, 2.0, 1.0, 2.0};
  after[0].cells[0].window_nll = {1.1, 2.1, 1.3, 2.3};
  const ComparisonRow row = compare(before, after).rows[0];
  EXPECT_TRUE(row.paired);
  EXPECT_NEAR(*row.difference_stderr, 0.0577350, 1e-6);
}

// Fault 47: windows of unequal weight, whose plain mean (2) is not the cell's loss (130/110). Without pairing: √(0.01² + 0.01²).
TEST(Compare, DoesNotPairWindowsOfUnequalWeight) {
  Runs runs = {run_with("rope", 1, {cell_with(512, 130.0 / 110.0)})};
  runs[0].cells[0].window_nll = {1.0, 3.0};
  const ComparisonRow row = compare(runs, runs).rows[0];
  EXPECT_FALSE(row.paired);
  EXPECT_NEAR(*row.difference_stderr, 0.0141421, 1e-6);
  Runs other_count = runs;
  other_count[0].cells[0].window_nll = {130.0 / 110.0, 130.0 / 110.0, 130.0 / 110.0};
  EXPECT_FALSE(compare(other_count, runs).rows[0].paired);
}

TEST(Compare, EndsEveryFormatWithItsVerdict) {
  const Comparison worse = compare(one(100), one(110));
  const std::string line = "regressed: 1 of 1 cells broke a gate (exit 1)";
  EXPECT_THAT(format_comparison(worse, "text"), EndsWith("\nverdict: " + line + "\n"));
  EXPECT_THAT(format_comparison(worse, "md"), EndsWith("\n**verdict: " + line + "**\n"));
  EXPECT_THAT(format_comparison(worse, "csv"), EndsWith("\n(all),,,,,,,,,,,,exit 1," + line + "\n"));
  const Json json = parse_json(format_comparison(worse, "json"), "comparison.json").root;
  EXPECT_EQ(json["summary"], line);
  EXPECT_EQ(json["exit"], 1);
  EXPECT_EQ(json["rows"][0]["verdict"], "regressed");
  EXPECT_NEAR(json["rows"][0]["relative_ppl"].get<double>(), 0.1, 1e-12);
  EXPECT_THROW(format_comparison(worse, "html"), ConfigError);
}

TEST(Compare, ShowsBothSidesTheDifferenceAndTheGates) {
  const std::string text = format_comparison(compare(one(100), one(110)), "text");
  EXPECT_THAT(text,
              AllOf(HasSubstr("100.0"), HasSubstr("110.0"), HasSubstr("+0.0953 \u00b1 0.0141 unpaired"), HasSubstr("+10.00%")));
  EXPECT_THAT(text, HasSubstr("Fails on ppl>+2%: applied to 1 cells, broken by 1."));
}

// Fault 124.
TEST(Compare, WritesNoInfinityIntoJson) {
  const Runs overflow = {run_with("rope", 1, {cell_with(512, 800)})};
  const Json row = parse_json(format_comparison(compare(one(100), overflow), "json"), "comparison.json").root["rows"][0];
  EXPECT_TRUE(row["candidate_ppl"].is_null());
  EXPECT_TRUE(row["relative_ppl"].is_null());
  EXPECT_EQ(row["verdict"], "regressed");
}

TEST(Compare, ProvesThatItsGateCanFail) {
  std::string log;
  EXPECT_TRUE(compare_self_test(log)) << log;
  EXPECT_THAT(log, AllOf(HasSubstr("5 % worse: exit 1, expected 1"), HasSubstr("a cell dropped: exit 3"),
                         HasSubstr("another protocol: exit 3"), HasSubstr("a null instead of a number: exit 3"),
                         HasSubstr("the same table: exit 0")));
}

}  // namespace
}  // namespace posenc
