#include "core/results.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <limits>

#include "core/error.h"
#include "report/sample_runs.h"

namespace posenc {
namespace {

using ::testing::AllOf;
using testing::cell_with;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::run_with;

// The example of the format's description, with numbers that belong together: exp(1.5123) = 4.53715, 1.5123 / ln 2 = 2.18179.
constexpr const char* kExample = R"json({
  "schema": "posenc.results/1", "name": "rope", "scheme": "rope", "seed": 1, "train_length": 128, "unit": "byte", "split": "test",
  "parameters": 824576, "status": "ok", "protocol_hash": "f00d", "from_the_future": [1, {"a": 2}],
  "cells": [{"extension": "none", "length": 256, "protocol": "fixed_target", "window": 256, "stride": 128, "targets": 16384,
             "nll": 1.5123, "stderr": 0.0102, "ppl": 4.537, "bits_per_byte": 2.182, "status": "ok", "window_nll": [1.5, 1.5246]},
            {"extension": "pi(factor=4)", "length": 512, "protocol": "sliding", "window": 512, "stride": 128, "targets": 16384,
             "nll": null, "stderr": null, "ppl": null, "status": "refused", "reason": "the table ends at 256"}],
  "by_position": [{"extension": "none", "length": 2048, "from": 128, "to": 160, "targets": 320,
                   "nll": 1.61, "stderr": 0.02}]})json";

Json example() { return Json::parse(kExample); }

std::string error_of(const Json& json) {
  try {
    results_from_json(json, "runs/rope/results.json");
  } catch (const DataError& error) {
    return error.what();
  }
  return "no error";
}

class LoadResults : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = std::filesystem::path(::testing::TempDir()) / "posenc_load_results";
    std::filesystem::remove_all(root_);
    std::filesystem::create_directories(root_);
  }
  void TearDown() override { std::filesystem::remove_all(root_); }
  void put(const std::string& path, const std::string& text) const {
    std::filesystem::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }
  std::string example_named(const std::string& name) const {
    Json json = example();
    json["name"] = name;
    return json.dump();
  }
  std::filesystem::path root_;
};

TEST(Results, ReadsTheDocumentedExampleAndIgnoresWhatItDoesNotKnow) {
  const Results run = results_from_json(example(), "results.json");
  EXPECT_EQ(run.scheme, "rope");
  EXPECT_EQ(run.parameters, 824576);
  EXPECT_EQ(run.split, "test");
  ASSERT_EQ(run.cells.size(), 2u);
  EXPECT_EQ(run.cells[0].targets, 16384);
  EXPECT_DOUBLE_EQ(*run.cells[0].stderr_, 0.0102);
  EXPECT_DOUBLE_EQ(*run.cells[0].ppl, 4.537);
  EXPECT_NEAR(*run.cells[0].bits_per_byte, 2.18179, 1e-4);
  EXPECT_THAT(run.cells[0].window_nll, ElementsAre(1.5, 1.5246));
  EXPECT_FALSE(run.cells[1].nll.has_value());
  EXPECT_EQ(run.cells[1].reason, "the table ends at 256");
  ASSERT_EQ(run.by_position.size(), 1u);
  EXPECT_EQ(run.by_position[0].to, 160);
}

TEST(Results, WritesWhatItReads) {
  const Json once = results_to_json(results_from_json(example(), "a"));
  EXPECT_EQ(once, results_to_json(results_from_json(once, "b")));
  EXPECT_EQ(once["cells"][0]["nll"].get<double>(), 1.5123);
  EXPECT_EQ(once["cells"][1]["status"], "refused");
  EXPECT_TRUE(once["cells"][1]["nll"].is_null());
}

TEST(Results, NamesFileAndPointerOfAWrongType) {
  Json json = example();
  json["cells"][1]["length"] = "512";
  EXPECT_THAT(error_of(json),
              AllOf(HasSubstr("runs/rope/results.json"), HasSubstr("/cells/1"), HasSubstr("\"length\" must be an integer")));
  json = example();
  json.erase("protocol_hash");
  EXPECT_THAT(error_of(json), HasSubstr("\"protocol_hash\" must be a string"));
  json = example();
  json["cells"] = 7;
  EXPECT_THAT(error_of(json), HasSubstr("\"cells\" must be a list"));
}

TEST(Results, RefusesAnotherSchemaAnUnknownStatusAndASecondCellOfTheSameKind) {
  Json json = example();
  json["schema"] = "posenc.results/2";
  EXPECT_THAT(error_of(json), AllOf(HasSubstr("posenc.results/2"), HasSubstr("posenc.results/1")));
  json = example();
  json["cells"][0]["status"] = "fine";
  EXPECT_THAT(error_of(json), HasSubstr("\"fine\""));
  json = example();
  json["cells"].push_back(json["cells"][0]);
  json["cells"][2]["nll"] = 1.75;
  EXPECT_THAT(error_of(json), HasSubstr("/cells/2: a second cell"));
}

TEST(Results, ReadsALengthEvaluatedTwiceAsOneCell) {
  Json json = example();
  json["cells"].push_back(json["cells"][0]);
  EXPECT_EQ(results_from_json(json, "a").cells.size(), 2u);
}

// A table edited by hand, nll left alone: the default gates look at both.
TEST(Results, TakesThePerplexityThatTheFileGives) {
  Json json = example();
  json["cells"][0]["ppl"] = 4.76;
  EXPECT_EQ(results_from_json(json, "a").cells[0].ppl, 4.76);
}

TEST(Results, TakesAnOkCellWithoutANumberAsFailed) {
  for (const char* key : {"nll", "ppl"}) {
    Json json = example();
    json["cells"][0][key] = nullptr;
    const Cell cell = results_from_json(json, "a").cells[0];
    EXPECT_EQ(cell.status, "failed") << key;
    EXPECT_FALSE(cell.nll.has_value()) << key;
    EXPECT_THAT(cell.reason, HasSubstr(key));
  }
}

// Fault 124: NaN and Infinity in JSON.
TEST(Results, WritesNoNanOrInfinityAndSaysWhy) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN(), kInf = std::numeric_limits<double>::infinity();
  Results run = run_with("rope", 1, {cell_with(128, 1.5), cell_with(256, 1.5), cell_with(512, 1.5)});
  run.cells[0].nll = kNan;
  run.cells[1].nll = kInf;
  run.cells[2].stderr_ = kNan;
  run.cells[2].window_nll = {1.0, kNan};
  run.by_position.push_back({"none", 512, 0, 1, 64, kNan, kInf});
  run.tokens_per_second = kInf;
  const std::string text = dump_json(results_to_json(run));
  const Json json = parse_json(text, "results.json").root;  // strict: knows no NaN
  EXPECT_EQ(json["cells"][0]["status"], "failed");
  EXPECT_EQ(json["cells"][0]["reason"], "nll is not a finite number");
  EXPECT_TRUE(json["cells"][1]["ppl"].is_null());
  EXPECT_EQ(json["cells"][2]["status"], "ok");
  EXPECT_TRUE(json["cells"][2]["stderr"].is_null());
  EXPECT_FALSE(json["cells"][2].contains("window_nll"));
  EXPECT_TRUE(json["by_position"][0]["nll"].is_null());
  EXPECT_EQ(json["by_position"][0]["reason"], "nll is not a finite number");
}

// Fault 50: perplexity overflow. e^100 = 2.6881171e43 is beyond float, e^800 beyond double.
TEST(Results, KeepsTheLossWhosePerplexityOverflows) {
  const Json json = results_to_json(run_with("rope", 1, {cell_with(128, 100), cell_with(256, 800)}));
  EXPECT_NEAR(json["cells"][0]["ppl"].get<double>() / 2.6881171418161356e43, 1, 1e-12);
  EXPECT_EQ(json["cells"][1]["nll"], 800.0);
  EXPECT_TRUE(json["cells"][1]["ppl"].is_null());
  EXPECT_EQ(json["cells"][1]["status"], "ok");
  EXPECT_EQ(json["cells"][1]["reason"], "perplexity overflows");
  const Cell again = results_from_json(json, "a").cells[1];
  EXPECT_EQ(again.status, "ok");
  EXPECT_EQ(*again.nll, 800.0);
}

TEST_F(LoadResults, ReadsAFileARunDirectoryAndASweepInOrderOfPaths) {
  put("sweep/b/results.json", example_named("second"));
  put("sweep/a/results.json", example_named("first"));
  put("sweep/a/checkpoints/results.json", "not looked at");
  const auto sweep = load_results(root_ / "sweep");
  ASSERT_EQ(sweep.size(), 2u);
  EXPECT_EQ(sweep[0].name, "first");
  EXPECT_EQ(sweep[1].name, "second");
  EXPECT_EQ(load_results(root_ / "sweep/b").at(0).name, "second");
  EXPECT_EQ(load_results(root_ / "sweep/b/results.json").at(0).name, "second");
}

TEST_F(LoadResults, ReadsTheRunsOfAReportAndNamesTheWrongOne) {
  put("report.json", R"({"schema": "posenc.report/1", "runs": [)" + example_named("x") + "," + example_named("y") + "]}");
  ASSERT_EQ(load_results(root_ / "report.json").size(), 2u);
  EXPECT_EQ(load_results(root_ / "report.json")[1].name, "y");
  put("bad.json", R"({"runs": [)" + example_named("x") + R"(, {"schema": "posenc.results/1"}]})");
  try {
    load_results(root_ / "bad.json");
    FAIL() << "the second run has no name";
  } catch (const DataError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("bad.json"), HasSubstr("/runs/1: \"name\" must be a string")));
  }
}

// Faults 117 and 118: runs of a sweep that did not finish are there, each with its own reason.
TEST_F(LoadResults, ShowsRunsThatDidNotFinishWithTheirReasons) {
  put("sweep/sweep.json", "{}");
  put("sweep/1/results.json", example_named("done"));
  put("sweep/2/config.json",
      R"({"name": "wide", "seed": 3, "train": {"length": 64}, "model": {"position": {"scheme": "alibi"}}})");
  put("sweep/2/status.json", R"({"status": "diverged", "reason": "loss is NaN at step 812"})");
  put("sweep/3/config.json", R"({"name": "cut short", "model": {"posi)");
  const auto runs = load_results(root_ / "sweep");
  ASSERT_EQ(runs.size(), 3u);
  EXPECT_EQ(runs[0].status, "ok");
  EXPECT_EQ(runs[1].status, "diverged");
  EXPECT_EQ(runs[1].reason, "loss is NaN at step 812");
  EXPECT_EQ(runs[1].name, "wide");
  EXPECT_EQ(runs[1].scheme, "alibi");
  EXPECT_EQ(runs[1].seed, 3);
  EXPECT_EQ(runs[1].train_length, 64);
  EXPECT_EQ(runs[2].status, "unfinished");
  EXPECT_EQ(runs[2].name, "3");
  EXPECT_THAT(runs[2].reason, HasSubstr("no results.json"));
}

TEST_F(LoadResults, NamesThePathOfWhatItCannotRead) {
  EXPECT_THROW(load_results(root_ / "absent.json"), IoError);
  put("cut.json", R"({"schema": "posenc.results/1", "name": )");
  put("nan.json", R"({"schema": "posenc.results/1", "seed": NaN})");
  std::filesystem::create_directories(root_ / "empty/below");
  for (const char* name : {"cut.json", "nan.json", "empty"}) {
    try {
      load_results(root_ / name);
      FAIL() << name << " was read";
    } catch (const DataError& error) {
      EXPECT_THAT(error.what(), HasSubstr(name));
    }
  }
}

// 486 of 512 is 0.94921875; its Wilson interval was worked out apart.
TEST(Results, AccuracyComesBackAsItWasWritten) {
  Results run = run_with("rope", 1, {});
  run.task = "passkey(digits=2)";
  run.task_lengths = {64, 128};
  Accuracy right;
  right.length = 256, right.depth = 0.25, right.examples = 512;
  right.exact_match = 0.94921875, right.token_accuracy = 0.98, right.token_stderr = 0.003;
  Accuracy refused;
  refused.extension = "pi", refused.length = 512, refused.status = "refused", refused.reason = "the table ends at 300";
  run.accuracy = {right, refused};
  const Json json = results_to_json(run);
  EXPECT_EQ(json.at("task"), "passkey(digits=2)");
  EXPECT_EQ(json.at("accuracy")[0].at("exact_match"), 0.94921875);
  EXPECT_NEAR(json.at("accuracy")[0].at("exact_match_low").get<double>(), 0.9266340, 1e-6);
  EXPECT_NEAR(json.at("accuracy")[0].at("exact_match_high").get<double>(), 0.9651128, 1e-6);
  EXPECT_TRUE(json.at("accuracy")[1].at("exact_match").is_null());
  EXPECT_FALSE(json.at("accuracy")[1].contains("depth"));
  const Results back = results_from_json(json, "results.json");
  EXPECT_EQ(back.task_lengths, run.task_lengths);
  ASSERT_EQ(back.accuracy.size(), 2u);
  EXPECT_EQ(*back.accuracy[0].depth, 0.25);
  EXPECT_EQ(*back.accuracy[0].token_stderr, 0.003);
  EXPECT_EQ(back.accuracy[1].reason, "the table ends at 300");
  EXPECT_EQ(results_to_json(back), json);
}

TEST(Results, AShareThatIsNoneIsAFailedAccuracy) {
  for (const double share : {-0.1, 1.1}) {
    Accuracy accuracy;
    accuracy.length = 5, accuracy.examples = 10, accuracy.exact_match = share;
    EXPECT_EQ(settled(accuracy).status, "failed");
    EXPECT_FALSE(settled(accuracy).exact_match.has_value());
  }
  EXPECT_EQ(settled(Accuracy{}).status, "failed");  // "ok" without a number
}

TEST(Results, TextHasNoKeyOfATask) {
  const Json json = results_to_json(run_with("rope", 1, {cell_with(128, 1.5)}));
  for (const char* key : {"task", "train_lengths", "accuracy"}) EXPECT_FALSE(json.contains(key)) << key;
}

}  // namespace
}  // namespace posenc
