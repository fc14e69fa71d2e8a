// A task from config to report, as a user runs it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "cli/process.h"
#include "cli/runs.h"

namespace posenc {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

/// 120 steps of parity on up to six bits.
Json parity_config() {
  return {
      {"name", "bits"},
      {"data", {{"kind", "task"}, {"task", "parity"}, {"train_lengths", {1, 6}}, {"test_lengths", {5, 8, 20}}, {"examples", 40}}},
      {"model", {{"layers", 1}, {"d_model", 16}, {"heads", 2}, {"position", "learned"}}},
      {"train", {{"batch_tokens", 64}, {"steps", 120}, {"log_every", 1}, {"eval_every", 60}, {"checkpoint_every", 10}}},
      {"eval", {{"extensions", {"pi"}}}},
      {"runtime", {{"threads", 1}}}};
}

/// One run from start to end, made when first asked for.
struct TaskRun {
  TaskRun()
      : config(write_config(scratch / "bits.json", parity_config())),
        path(scratch / "run"),
        outcome(run({{"train", "--config", config, "--out", path}})) {}
  Scratch scratch;
  fs::path config, path;
  Outcome outcome;
};

const TaskRun& task_run() {
  static const TaskRun run;
  return run;
}

TEST(Task, LeavesAccuracyByExtensionAndLength) {
  ASSERT_EQ(task_run().outcome.code, 0) << task_run().outcome.err;
  const Json results = read_json(task_run().path / "results.json");
  EXPECT_EQ(results.at("task"), "parity");
  EXPECT_EQ(results.at("train_lengths"), Json({1, 6}));
  EXPECT_EQ(results.at("train_length"), 9);  // <s>, six bits, the mark, the answer
  EXPECT_EQ(results.at("unit"), "symbol");
  EXPECT_TRUE(results.at("cells").empty());
  const Json& accuracy = results.at("accuracy");
  ASSERT_EQ(accuracy.size(), 6u);
  EXPECT_EQ(accuracy[1].at("length"), 8);
  EXPECT_EQ(accuracy[1].at("status"), "refused");  // of a table of 9 positions
  EXPECT_THAT(accuracy[1].at("reason").get<std::string>(), HasSubstr("length 11"));
  EXPECT_EQ(accuracy[4].at("extension"), "pi");
  EXPECT_EQ(accuracy[4].at("status"), "ok");
  EXPECT_EQ(accuracy[4].at("examples"), 40);
  EXPECT_LE(accuracy[4].at("exact_match_low"), accuracy[4].at("exact_match"));
  EXPECT_EQ(accuracy[4].at("exact_match"), accuracy[4].at("token_accuracy"));  // answers of one token
}

TEST(Task, ShowsItsTableAndWritesItsReport) {
  EXPECT_THAT(task_run().outcome.out, AllOf(HasSubstr("bits (learned), parity, trained at lengths 1 to 6, seed 1, by length"),
                                            HasSubstr("exact match %"), HasSubstr("refused"), Not(HasSubstr("ppl"))));
  EXPECT_THAT(read_file(task_run().path / "report.md"),
              HasSubstr("Exact match in %, parity, trained at lengths 1 to 6, by length"));
  const Outcome report = run({{"report", task_run().path, "--format", "csv"}});
  EXPECT_EQ(report.code, 0);
  EXPECT_THAT(report.out, HasSubstr("parity,1-6,test,"));
}

TEST(Task, LearnsAndLogsAValidationLoss) {
  const std::vector<Json> metrics = read_metrics(task_run().path);
  ASSERT_EQ(metrics.size(), 120u);
  EXPECT_LT(metrics.back().at("loss").get<double>(), metrics.front().at("loss").get<double>());
  EXPECT_TRUE(metrics[59].contains("valid_loss"));
  EXPECT_GT(metrics[59].at("valid_loss").get<double>(), 0);
}

TEST(Task, WritesTheLengthThatItsLongestExampleNeeds) {
  const Json config = read_json(task_run().path / "config.json");
  EXPECT_EQ(config.at("train").at("length"), 9);
  EXPECT_EQ(config.at("train").at("batch_tokens"), 63);
  EXPECT_EQ(config.at("data").at("task").at("task"), "parity");
  EXPECT_TRUE(config.at("eval").at("lengths").empty());
}

// The same weights from one thread and from two, and from a run that its own config.json describes.
TEST(Task, IsTheSameOnTwoThreadsAndFromItsResolvedConfig) {
  const Scratch scratch;
  const fs::path config = task_run().path / "config.json";
  const Outcome again = run({{"--threads", "2", "train", "--config", config, "--out", scratch / "again"}});
  ASSERT_EQ(again.code, 0) << again.err;
  EXPECT_TRUE(read_file(task_run().path / "model.safetensors") == read_file(scratch / "again" / "model.safetensors"));
  EXPECT_EQ(read_json(task_run().path / "results.json").at("accuracy"),
            read_json(scratch / "again" / "results.json").at("accuracy"));
}

TEST(Task, ResumesWhereItWasKilled) {
  const Scratch scratch;
  Process training({{"train", "--config", task_run().config, "--out", scratch / "killed"}});
  ASSERT_TRUE(training.wait_until([&] { return has_logged(scratch / "killed", 25); }));
  training.signal(SIGKILL);
  training.wait();
  const Outcome resumed = run({{"train", "--config", task_run().config, "--out", scratch / "killed", "--resume"}});
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_TRUE(read_file(task_run().path / "model.safetensors") == read_file(scratch / "killed" / "model.safetensors"));
}

TEST(Task, IsEvaluatedAgainAtOtherLengths) {
  const Scratch scratch;
  const Outcome eval = run({{"eval", task_run().path, "--lengths", "7,9", "--out", scratch / "r.json"}});
  ASSERT_EQ(eval.code, 0) << eval.err;
  const Json accuracy = read_json(scratch / "r.json").at("accuracy");
  ASSERT_EQ(accuracy.size(), 4u);
  EXPECT_EQ(accuracy[0].at("length"), 7);
}

TEST(Task, IsComparedByItsAnswers) {
  const Outcome same = run({{"compare", task_run().path, task_run().path}});
  EXPECT_EQ(same.code, 0) << same.out;
  EXPECT_THAT(same.out, HasSubstr("Right answers"));
  const Outcome gated = run({{"compare", task_run().path, task_run().path, "--fail-on", "error@20>-0.5"}});
  EXPECT_EQ(gated.code, 1) << gated.out;  // it did not fall by a half
}

TEST(Task, RefusesWhatDoesNotFit) {
  const Scratch scratch;
  const auto refused = [&](const char* patch) {
    Json config = parity_config();
    config.merge_patch(Json::parse(patch));
    const Outcome outcome = run({{"train", "--config", write_config(scratch / "c.json", config), "--out", scratch / "run"}});
    EXPECT_EQ(outcome.code, 2) << patch;
    EXPECT_FALSE(fs::exists(scratch / "run"));
    return outcome.err;
  };
  EXPECT_THAT(refused(R"({"train": {"length": 64}})"), AllOf(HasSubstr("/train/length"), HasSubstr("need 9")));
  EXPECT_THAT(refused(R"({"train": {"batch_tokens": 6}})"), HasSubstr("less than one sequence of length 9"));
  EXPECT_THAT(refused(R"({"eval": {"lengths": [5]}})"), HasSubstr("data.test_lengths"));
  EXPECT_THAT(refused(R"({"eval": {"protocols": ["sliding"]}})"), HasSubstr("/eval/protocols"));
  EXPECT_THAT(refused(R"({"data": {"train_lengths": [4, 1]}})"), HasSubstr("/data/train_lengths"));
  EXPECT_THAT(refused(R"({"data": {"kind": "text"}})"), HasSubstr("/data/task"));
}

// Two tasks and two seeds: a table for each task.
TEST(Task, IsSweptLikeAnythingElse) {
  const Scratch scratch;
  Json base = parity_config();
  base.erase("name");
  base["train"]["steps"] = 2;
  base["eval"].erase("extensions");
  base["model"]["position"] = "alibi";
  const fs::path sweep =
      write_config(scratch / "s.json", {{"base", base}, {"vary", {{"/data/task", {"parity", "summation"}}, {"/seed", {1, 2}}}}});
  const Outcome outcome = run({{"sweep", "--config", sweep, "--out", scratch / "runs"}});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("Exact match in %, parity"), HasSubstr("Exact match in %, summation"),
                                 HasSubstr("Mean over n = 2 seeds")));
}

// Copying 10 symbols takes 22 positions; a passkey of five digits in 128 characters 135.
TEST(Task, TheConfigsThatComeWithPosencAreRead) {
  for (const auto& [name, length] : {std::pair("copy.json", 22), std::pair("passkey.json", 135)}) {
    const Outcome plan = run({{"plan", "--config", fs::path(POSENC_SOURCE_DIR) / "configs" / name, "--format", "json"}});
    ASSERT_EQ(plan.code, 0) << plan.err;
    EXPECT_EQ(Json::parse(plan.out).at("config").at("train").at("length"), length);
  }
}

}  // namespace
}  // namespace posenc
