// Right answers in reports and comparisons.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "report/accuracy_rows.h"
#include "report/accuracy_table.h"
#include "report/compare.h"
#include "report/report.h"
#include "report/sample_runs.h"

namespace posenc {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::right_at;
using testing::run_with;
using testing::run_without;
using testing::task_run;

Accuracy refused_at(std::int64_t length) {
  Accuracy accuracy;
  accuracy.length = length, accuracy.status = "refused", accuracy.reason = "the table ends at 42";
  return accuracy;
}

// 0.8, 0.9, 1.0: mean 0.9, deviation 0.1, t(0.975, 2) = 4.30265, half width 0.248.
TEST(AccuracyRows, AreMeansOverSeeds) {
  const auto rows = accuracy_rows({task_run("rope", 1, {right_at(20, 0.8)}), task_run("rope", 2, {right_at(20, 0.9)}),
                                   task_run("rope", 3, {right_at(20, 1.0)})});
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].n, 3);
  EXPECT_NEAR(*rows[0].exact_match.mean, 0.9, 1e-12);
  EXPECT_NEAR(*rows[0].exact_match.error, 0.248414, 1e-5);
  EXPECT_NEAR(*rows[0].token_accuracy.mean, 0.95, 1e-12);
  EXPECT_FALSE(rows[0].interval.has_value());
}

TEST(AccuracyRows, HaveTheWilsonIntervalOfOneSeed) {
  const auto rows = accuracy_rows({task_run("rope", 1, {right_at(20, 0.9)})});
  EXPECT_NEAR(rows[0].interval->low, 0.8705781, 1e-6);  // n = 500
  EXPECT_NEAR(rows[0].interval->high, 0.9233224, 1e-6);
}

// Two tasks with one training length and seed are two settings, not one ambiguous scheme.
TEST(AccuracyRows, KeepTasksApart) {
  const auto rows = accuracy_rows({task_run("rope", 1, {right_at(20, 0.9)}), task_run("rope", 1, {right_at(20, 0.5)}, "parity")});
  ASSERT_EQ(rows.size(), 2u);
  for (const AccuracyRow& row : rows) EXPECT_EQ(row.label, "rope");
  EXPECT_EQ(rows[1].setting.task, "parity");
  EXPECT_EQ(*rows[1].exact_match.mean, 0.5);
}

TEST(AccuracyRows, PoolDepthsAndKeepEach) {
  const auto rows = accuracy_rows({task_run("rope", 1, {right_at(64, 1.0, 0.0), right_at(64, 0.5, 1.0)}, "passkey")});
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_FALSE(rows[0].depth.has_value());
  EXPECT_EQ(*rows[0].exact_match.mean, 0.75);
  EXPECT_EQ(rows[0].examples, 1000);
  EXPECT_EQ(*rows[1].depth, 0.0);
  EXPECT_EQ(*rows[1].exact_match.mean, 1.0);
  EXPECT_EQ(*rows[2].exact_match.mean, 0.5);
}

TEST(AccuracyTables, ShowSchemesByLengthWithTheReasonOfWhatHasNoNumber) {
  const std::string text =
      format_report({task_run("rope", 1, {right_at(20, 0.9), right_at(40, 0.25)}),
                     task_run("learned", 1, {right_at(20, 1.0), refused_at(40)}), run_without("fire", 1, "failed", "no memory")},
                    "text");
  EXPECT_THAT(text,
              AllOf(HasSubstr("Exact match in %, copy, trained at lengths 1 to 20, by length"), HasSubstr("90.0 [87.1, 92.3]"),
                    HasSubstr("refused"), HasSubstr("learned at 40: refused: the table ends at 42"),
                    HasSubstr("Token accuracy in %"), HasSubstr("62.5 ± 1.0"), HasSubstr("Split: test")));
  EXPECT_THAT(text, AllOf(HasSubstr("Runs that are not ok"), HasSubstr("no memory"), Not(HasSubstr("Perplexity"))));
}

TEST(AccuracyTables, MapDepthByLength) {
  const std::string md = format_report(
      {task_run("rope", 1, {right_at(64, 1.0, 0.0), right_at(64, 0.5, 1.0), right_at(128, 0.75, 0.0), right_at(128, 0.25, 1.0)},
                "passkey")},
      "md");
  EXPECT_THAT(md, HasSubstr("rope, passkey, trained at lengths 1 to 20: by depth and length"));
  EXPECT_THAT(md, HasSubstr("| depth | 64 | 128 |"));
  EXPECT_THAT(md, ::testing::ContainsRegex("\\| 0 \\| 100\\.0 [^|]*\\| 75\\.0 [^|]*\\|\n\\| 1 \\| 50\\.0 [^|]*\\| 25\\.0"));
}

TEST(AccuracyTables, ShowOneRun) {
  const std::string text = format_run_table(task_run("rope", 1, {right_at(20, 0.9), right_at(40, 0.25)}));
  EXPECT_THAT(text, AllOf(HasSubstr("copy-rope-1 (rope), copy, trained at lengths 1 to 20, seed 1, by length"),
                          ::testing::ContainsRegex("extension +metric +20 +40"), HasSubstr("exact match %"),
                          HasSubstr("token accuracy %")));
}

TEST(AccuracyReport, IsInCsvAndJsonToo) {
  const std::vector<Results> runs = {task_run("rope", 1, {right_at(20, 0.9), refused_at(40)})};
  const std::string csv = format_report(runs, "csv");
  EXPECT_THAT(csv, AllOf(HasSubstr("task,train_lengths,split"), HasSubstr("copy,1-20,test,abc123,rope,rope,none,20,,500,1,0.9,"),
                         HasSubstr(",40,,0,0,refused,")));
  const Json json = Json::parse(format_report(runs, "json"));
  EXPECT_TRUE(json.at("rows").empty());
  EXPECT_EQ(json.at("accuracy")[0].at("exact_match_mean"), 0.9);
  EXPECT_EQ(json.at("runs")[0].at("accuracy")[0].at("exact_match"), 0.9);
  EXPECT_THROW(format_report({runs[0], run_with("rope", 1, {testing::cell_with(128, 1)})}, "csv"), ConfigError);
}

using Runs = std::vector<Results>;

Runs one(double share) { return {task_run("rope", 1, {right_at(40, share)})}; }

// 0.05 more wrong answers pass, 0.06 do not.
TEST(CompareAccuracy, FailsWhenMoreAnswersAreWrong) {
  EXPECT_EQ(compare(one(0.9), one(0.85)).verdict, ExitCode::kOk);
  const Comparison worse = compare(one(0.9), one(0.84));
  EXPECT_EQ(worse.verdict, ExitCode::kGateFailed);
  ASSERT_EQ(worse.accuracy.size(), 1u);
  EXPECT_EQ(worse.accuracy[0].verdict, "regressed");
  EXPECT_EQ(worse.accuracy[0].reason, "breaks error>+0.05");
  EXPECT_NEAR(*worse.accuracy[0].difference, -0.06, 1e-12);
  EXPECT_NEAR(*worse.accuracy[0].difference_stderr, 0.0212, 1e-4);  // √((0.9·0.1 + 0.84·0.16)/500)
  EXPECT_EQ(compare(one(0.5), one(0.9)).accuracy[0].verdict, "improved");
}

TEST(CompareAccuracy, TakesGatesOnTheError) {
  const auto verdict = [](double before, double after, const char* gate) {
    return compare(one(before), one(after), {parse_gate(gate)}).verdict;
  };
  EXPECT_EQ(verdict(0.9, 0.89, "error>+5%"), ExitCode::kGateFailed);  // 0.10 to 0.11 is 10 %
  EXPECT_EQ(verdict(0.9, 0.89, "error>+20%"), ExitCode::kOk);
  EXPECT_EQ(verdict(0.9, 0.89, "error@40>0.1"), ExitCode::kGateFailed);
  EXPECT_EQ(verdict(0.9, 0.95, "error@40>0.1"), ExitCode::kOk);
  EXPECT_EQ(verdict(0.9, 0.9, "error@41>0.1"), ExitCode::kNotComparable);  // matches nothing
  EXPECT_EQ(verdict(0.9, 0.9, "ppl>+2%"), ExitCode::kNotComparable);
}

TEST(CompareAccuracy, NeverFailsOpen) {
  Runs other = one(0.9), fewer = one(0.9), lost = one(0.9);
  other[0].protocol_hash = "different";
  fewer[0].accuracy[0].examples = 400;
  lost[0].accuracy = {refused_at(40)};
  EXPECT_EQ(compare(one(0.9), other).verdict, ExitCode::kNotComparable);
  EXPECT_EQ(compare(one(0.9), fewer).verdict, ExitCode::kNotComparable);
  EXPECT_EQ(compare(one(0.9), lost).verdict, ExitCode::kNotComparable);
  EXPECT_EQ(compare(one(0.9), {task_run("rope", 1, {})}).verdict, ExitCode::kNotComparable);
  EXPECT_EQ(compare({task_run("rope", 1, {refused_at(40)})}, lost).verdict, ExitCode::kNotComparable);  // the gate has no number
}

TEST(CompareAccuracy, ShowsBothSidesInEveryFormat) {
  const Comparison c = compare(one(0.9), one(0.84));
  EXPECT_THAT(format_comparison(c, "text"),
              AllOf(HasSubstr("90.0"), HasSubstr("84.0"), HasSubstr("-6.0 ± 2.1"), HasSubstr("regressed"),
                    HasSubstr("Fails on error>+0.05: applied to 1 cells, broken by 1.")));
  EXPECT_THAT(format_comparison(c, "csv"), AllOf(HasSubstr("rope,copy,1,none,40,,0.9,0.84,"), HasSubstr("exit 1")));
  const Json json = Json::parse(format_comparison(c, "json"));
  EXPECT_EQ(json.at("accuracy")[0].at("verdict"), "regressed");
  EXPECT_EQ(json.at("exit"), 1);
}

}  // namespace
}  // namespace posenc
