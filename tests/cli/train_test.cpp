// `posenc train` from config to run directory, and what it does with a directory that holds a run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "cli/process.h"
#include "cli/runs.h"

namespace posenc {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;
using ::testing::Not;

std::vector<std::string> keys_of(const Json& object) {
  std::vector<std::string> keys;
  for (const auto& [key, unused] : object.items()) keys.push_back(key);
  return keys;
}

TEST(Train, LeavesEveryFileOfTheContract) {
  const WholeRun& whole = whole_run();
  ASSERT_EQ(whole.outcome.code, 0) << whole.outcome.err;
  std::vector<std::string> files;
  for (const auto& [file, bytes] : snapshot(whole.path)) files.push_back(file);
  EXPECT_THAT(files,
              ElementsAre("LOCK", "checkpoints", "checkpoints/0.posenc", "checkpoints/1.posenc", "config.json", "manifest.json",
                          "metrics.jsonl", "model.safetensors", "report.md", "results.json", "tokenizer.json"));
  EXPECT_THAT(read_file(whole.path / "report.md"), HasSubstr("| rope |"));
}

TEST(Train, WritesResultsAsTheContractHasThem) {
  const Json results = read_json(whole_run().path / "results.json");
  EXPECT_EQ(results.at("schema"), "posenc.results/1");
  EXPECT_EQ(results.at("name"), "whole");
  EXPECT_EQ(results.at("scheme"), "rope");
  EXPECT_EQ(results.at("seed"), 1);
  EXPECT_EQ(results.at("train_length"), 16);
  EXPECT_EQ(results.at("unit"), "byte");
  EXPECT_EQ(results.at("status"), "ok");
  // Tied 256 x 16 embedding 4096; attention 3·16·16 + 16·16 = 1024; MLP 2·16·64 = 2048; three norms of 16.
  EXPECT_EQ(results.at("parameters"), 4096 + 1024 + 2048 + 48);
  EXPECT_FALSE(results.at("protocol_hash").get<std::string>().empty());
  ASSERT_EQ(results.at("cells").size(), 12u);  // 3 lengths, 2 protocols, none and pi
  for (const Json& cell : results.at("cells")) {
    EXPECT_THAT(keys_of(cell), IsSupersetOf({"extension", "length", "protocol", "window", "stride", "targets", "nll", "stderr",
                                             "ppl", "bits_per_byte", "status"}));
    EXPECT_EQ(cell.at("status"), "ok");
    const double nll = cell.at("nll");
    EXPECT_NEAR(cell.at("ppl").get<double>(), std::exp(nll), 1e-9 * std::exp(nll));  // both are doubles
    EXPECT_NEAR(cell.at("bits_per_byte").get<double>(), nll / 0.6931471805599453, 1e-12);
    EXPECT_LT(nll, 5.5452);  // ln 256: it has learnt something
  }
  ASSERT_FALSE(results.at("by_position").empty());
  for (const Json& bucket : results.at("by_position"))
    EXPECT_THAT(keys_of(bucket), IsSupersetOf({"extension", "length", "from", "to", "nll", "stderr"}));
}

TEST(Train, SaysInTheManifestWhereAndHowItRan) {
  const WholeRun& whole = whole_run();
  const Json manifest = read_json(whole.path / "manifest.json");
  for (const char* pointer :
       {"/posenc", "/git", "/compiler", "/libtorch", "/blas/library", "/simd", "/attention/training", "/attention/evaluation/32",
        "/cpu", "/started", "/finished", "/data/train/sha256", "/data/valid/sha256", "/data/test/sha256"}) {
    const Json::json_pointer place(pointer);
    ASSERT_TRUE(manifest.contains(place)) << pointer;
    EXPECT_FALSE(manifest.at(place).get<std::string>().empty()) << pointer;
  }
  EXPECT_TRUE(manifest.at("blas").contains("kernel"));  // empty where the BLAS names none
  EXPECT_EQ(manifest.at("threads"), 1);
  EXPECT_EQ(manifest.at("resumes"), 0);
  EXPECT_GT(manifest.at("tokens_per_s").get<double>(), 0);
  EXPECT_GT(manifest.at("peak_rss_bytes").get<std::int64_t>(), 1 << 20);
  EXPECT_EQ(manifest.at("protocol_hash"), read_json(whole.path / "results.json").at("protocol_hash"));
  const auto bytes = static_cast<std::int64_t>(fs::file_size(whole.text));
  const Json& data = manifest.at("data");
  EXPECT_EQ(data.at("train").at("tokens"), bytes * 18 / 20);
  EXPECT_EQ(data.at("train").at("bytes").get<std::int64_t>() + data.at("valid").at("bytes").get<std::int64_t>() +
                data.at("test").at("bytes").get<std::int64_t>(),
            bytes);
}

TEST(Train, LogsOneObjectPerStep) {
  const std::vector<Json> metrics = read_metrics(whole_run().path);
  ASSERT_EQ(metrics.size(), 120u);
  for (std::size_t i = 0; i < metrics.size(); ++i) {
    ASSERT_THAT(keys_of(metrics[i]), ElementsAre("step", "loss", "lr", "grad_norm", "tokens_per_s"));
    EXPECT_EQ(metrics[i].at("step"), i + 1);
    EXPECT_GT(metrics[i].at("loss").get<double>(), 0);
    EXPECT_GT(metrics[i].at("tokens_per_s").get<double>(), 0);
  }
  EXPECT_DOUBLE_EQ(metrics[0].at("lr").get<double>(), 0.01 / 41);        // warm-up: lr·(step + 1)/(warmup + 1), from step 0
  EXPECT_DOUBLE_EQ(metrics[39].at("lr").get<double>(), 0.01 * 40 / 41);  //
  EXPECT_DOUBLE_EQ(metrics[40].at("lr").get<double>(), 0.01);
  EXPECT_NEAR(metrics[80].at("lr").get<double>(), 0.0055, 1e-12);  // half way of the cosine from 0.01 to 0.001
}

// Fault 127: 120 steps into files.
TEST(Train, KeepsARedirectedLogShortAndStdoutForTheTable) {
  const Outcome& outcome = whole_run().outcome;
  for (const std::string& stream : {outcome.out, outcome.err})
    EXPECT_THAT(stream, AllOf(Not(HasSubstr("\r")), Not(HasSubstr("\x1b"))));
  EXPECT_LE(static_cast<double>(lines_of(outcome.err).size()), 2 + outcome.seconds / 10)
      << outcome.err;  // one line per ten seconds
  const std::vector<std::string> lines = lines_of(outcome.out);
  ASSERT_GE(lines.size(), 4u);
  EXPECT_EQ(lines[0], "whole (rope), trained at 16, seed 1, by evaluation length");
  EXPECT_EQ(lines[1], "");
  EXPECT_THAT(lines[2], ::testing::MatchesRegex("protocol +extension +metric +8 +16 +32"));
}

// The life of a run directory: new, not again, --resume, --overwrite.
TEST(Train, NeitherRepeatsNorReplacesARunUnlessAsked) {
  const Scratch scratch;
  const std::string name = "A-z_0.9" + std::string(93, 'x');  // the longest there is
  write_config(scratch / "tiny.json", tiny_config(write_text(scratch / "text.txt", sample_text())));
  const fs::path path = scratch / "runs" / name;
  const auto train = [&](const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {"train", "--config",      "tiny.json", "--set", "/name=\"" + name + "\"",
                                          "--set", "/train/steps=2"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run({.arguments = arguments, .directory = scratch.path()});
  };

  const Outcome first = train({});
  ASSERT_EQ(first.code, 0) << first.err;
  EXPECT_EQ(read_json(path / "config.json").at("train").at("steps"),
            2);  // --set reached the run, and its default place is runs/NAME
  EXPECT_EQ(read_metrics(path).size(), 2u);

  const auto files = snapshot(path);
  const auto when = fs::last_write_time(path / "results.json");
  const Outcome again = train({});
  EXPECT_EQ(again.code, 2);
  EXPECT_THAT(again.err, AllOf(HasSubstr("runs/" + name), HasSubstr("--resume"), HasSubstr("--overwrite"), HasSubstr("--out")));
  EXPECT_THAT(again.out, IsEmpty());
  expect_untouched(path, files);

  const Outcome resumed = train({"--resume"});
  EXPECT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_EQ(resumed.out, first.out);
  expect_untouched(path, files);
  EXPECT_EQ(fs::last_write_time(path / "results.json"), when);

  const Outcome replaced = train({"--overwrite", "--set", "/train/steps=1"});
  EXPECT_EQ(replaced.code, 0) << replaced.err;
  EXPECT_EQ(read_json(path / "config.json").at("train").at("steps"), 1);
  EXPECT_EQ(read_metrics(path).size(), 1u);
}

TEST(Train, WritesNothingWhereItMayNot) {
  const Scratch scratch;
  fs::permissions(scratch.path(), fs::perms(0755));
  const std::string config = write_config(scratch / "tiny.json", tiny_config(write_text(scratch / "text.txt", sample_text())));
  fs::create_directory(scratch / "locked");
  fs::permissions(scratch / "locked", fs::perms(0555));
  Command command{{"train", "--config", config, "--out", scratch / "locked/run"}};
  command.as_nobody = true;
  const Outcome refused = run(command);
  if (refused.code == 126 || refused.code == 127) GTEST_SKIP() << "the user nobody cannot reach the executable here";
  EXPECT_EQ(refused.code, 74);
  EXPECT_THAT(refused.err, HasSubstr((scratch / "locked/run").string() + ": Permission denied"));
  EXPECT_THAT(refused.out, IsEmpty());
  EXPECT_TRUE(fs::is_empty(scratch / "locked"));
}

// From the weights of a run, at twice its length under an extension: what is known of positions stays that of the run.
TEST(Train, GoesOnFromAFinishedRun) {
  const Scratch scratch;
  const fs::path path = scratch / "continued";
  const std::vector<std::string> arguments = {"train",
                                              "--from",
                                              whole_run().path,
                                              "--out",
                                              path,
                                              "--set",
                                              "/train/length=32",
                                              "--set",
                                              "/train/steps=6",
                                              "--set",
                                              "/train/warmup=0",
                                              "--set",
                                              "/train/lr=0.001",
                                              "--set",
                                              "/model/extension={\"method\":\"yarn\",\"factor\":2}"};
  const Outcome done = run({arguments});
  ASSERT_EQ(done.code, 0) << done.err;
  const Json results = read_json(path / "results.json"), before = read_json(whole_run().path / "results.json");
  EXPECT_EQ(results["scheme"], "rope + yarn(factor=2), 768 more tokens at 32");
  EXPECT_EQ(results["train_length"], 32);
  const Json config = read_json(path / "config.json");
  EXPECT_EQ(config["model"]["trained_length"], 16);
  EXPECT_EQ(read_json(path / "manifest.json")["from"]["sha256"], sha256(read_file(whole_run().path / "model.safetensors")));
  // It starts where the run ended, not where training starts.
  const double first = read_metrics(path).front()["loss"], fresh = read_metrics(whole_run().path).front()["loss"];
  EXPECT_LT(first, 0.7 * fresh);
  EXPECT_EQ(run({{"train", "--from", whole_run().path, "--out", path}}).code, 2) << "replaced a run";
  const Outcome other = run({{"train", "--from", whole_run().path, "--out", scratch / "wide", "--set", "/model/d_model=32"}});
  EXPECT_EQ(other.code, 2);
  EXPECT_THAT(other.err, HasSubstr("train.from"));
}

// LongRoPE's factors are one a pair of dims, which only the model knows: refused before a directory is made.
TEST(Train, AnExtensionThatDoesNotFitTheModelIsRefusedBeforeTraining) {
  const Scratch scratch;
  Json config = tiny_config(write_text(scratch / "text.txt", sample_text()));
  config["eval"]["extensions"] = {{{"method", "longrope"}, {"long_factor", {1, 2, 3}}}};
  const Outcome refused = run({{"train", "--config", write_config(scratch / "c.json", config), "--out", scratch / "run"}});
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err, HasSubstr("turns 4 pairs"));
  EXPECT_FALSE(fs::exists(scratch / "run"));
}

}  // namespace
}  // namespace posenc
