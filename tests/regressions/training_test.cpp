// What a training comes to: learnt, diverged, refused; and that neither threads, cores nor the locale change it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "cli/process.h"
#include "cli/runs.h"
#include "core/safetensors.h"
#include "core/sealed_file.h"

namespace posenc {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

// Fault 45: each letter follows from the one before; a model trained or scored on the letter itself does not get there.
TEST(Training, LearnsAlternatingLettersToAPerplexityNearOne) {
  const Scratch scratch;
  std::string text;
  for (int i = 0; i < 2000; ++i) text += "ab";
  Json config = tiny_config(write_text(scratch / "abab.txt", text));
  config["model"]["d_model"] = 32;
  config["train"].update({{"length", 16}, {"batch_tokens", 128}, {"steps", 100}, {"lr", 0.005}, {"warmup", 10}});
  config["eval"]["lengths"] = {8, 16};
  const Outcome done = run({{"train", "--config", write_config(scratch / "abab.json", config), "--out", scratch / "run"}});
  ASSERT_EQ(done.code, 0) << done.err;
  const Json results = read_json(scratch / "run/results.json");
  ASSERT_EQ(results.at("cells").size(), 4u);
  for (const Json& cell : results.at("cells")) {
    EXPECT_LT(cell.at("ppl").get<double>(), 1.05) << cell.at("protocol") << " at " << cell.at("length");
  }
}

void expect_finite_checkpoints(const fs::path& run) {
  if (!fs::exists(run / "checkpoints")) return;
  for (const auto& slot : fs::directory_iterator(run / "checkpoints")) {
    for (const auto& [name, tensor] : parse_safetensors(read_sealed(slot.path()), slot.path()).tensors) {
      for (const double value : tensor.to_double()) ASSERT_TRUE(std::isfinite(value)) << slot.path() << " " << name;
    }
  }
}

// Faults 103, 124.
TEST(Training, StopsWhenItDivergesAndKeepsOnlyFiniteWeights) {
  const Scratch scratch;
  Json config = tiny_config(write_text(scratch / "text.txt", sample_text()));
  config["train"].update({{"steps", 30}, {"warmup", 0}, {"schedule", "constant"}, {"checkpoint_every", 1}});
  const std::string file = write_config(scratch / "c.json", config);
  // At 1e9 loss or gradient overflow in a later step; at 1e38 the first update already overflows weights.
  for (const char* rate : {"1e9", "1e38"}) {
    const fs::path path = scratch / rate;
    const Outcome diverged = run({{"train", "--config", file, "--out", path, "--set", std::string("/train/lr=") + rate}});
    EXPECT_EQ(diverged.code, 4) << diverged.err;
    EXPECT_THAT(diverged.err, ContainsRegex("diverged: .*not finite.* step [0-9]+"));
    const Json results = read_json(path / "results.json");
    EXPECT_EQ(results.at("status"), "diverged");
    EXPECT_THAT(results.at("reason").get<std::string>(), ContainsRegex("step [0-9]+"));
    ASSERT_EQ(results.at("cells").size(), 2u);
    for (const Json& cell : results.at("cells")) {
      EXPECT_EQ(cell.at("status"), "diverged");
      EXPECT_TRUE(cell.at("nll").is_null() && cell.at("ppl").is_null());
      EXPECT_EQ(cell.at("reason"), results.at("reason"));
    }
    EXPECT_FALSE(fs::exists(path / "model.safetensors"));
    expect_finite_checkpoints(path);
    for (const Json& line : read_metrics(path)) EXPECT_TRUE(line.at("loss").is_number());
    for (const char* format : {"text", "md", "csv", "json"}) {
      const Outcome report = run({{"report", path, "--format", format}});
      EXPECT_EQ(report.code, 0);
      EXPECT_THAT(report.out, AllOf(HasSubstr("diverged"), Not(ContainsRegex("[^a-z](nan|inf)[^a-z]"))));
    }
    EXPECT_TRUE(Json::parse(run({{"report", path, "--format", "json"}}).out).at("rows").at(0).at("nll_mean").is_null());
    EXPECT_EQ(run({{"compare", whole_run().path, path}}).code, 3);
  }
}

// Fault 27: the learned table ends where training did; the cell beyond says so with both numbers, the one within is filled.
TEST(Training, RefusesTheLengthsThatABoundedSchemeCannotRepresent) {
  const Scratch scratch;
  Json config = tiny_config(write_text(scratch / "text.txt", sample_text()));
  config["model"]["position"] = "learned";
  config["train"]["length"] = 32;
  config["train"]["batch_tokens"] = 64;
  config["eval"] = {{"lengths", {32, 64}}, {"windows", 4}, {"protocols", {"nonoverlapping"}}, {"by_position", 2}};
  const Outcome done = run({{"train", "--config", write_config(scratch / "c.json", config), "--out", scratch / "run"}});
  ASSERT_EQ(done.code, 0) << done.err;
  const Json cells = read_json(scratch / "run/results.json").at("cells");
  ASSERT_EQ(cells.size(), 2u);
  EXPECT_EQ(cells[0].at("status"), "ok");
  EXPECT_EQ(cells[1].at("status"), "refused");
  EXPECT_TRUE(cells[1].at("nll").is_null());
  EXPECT_THAT(cells[1].at("reason").get<std::string>(), AllOf(HasSubstr("64"), HasSubstr("32")));
  EXPECT_THAT(done.out, HasSubstr("refused"));
}

// Fault 135: the bytes do not depend on the number of threads.
TEST(Training, GivesTheSameBytesOnTwoThreadsAsOnOne) {
  const Scratch scratch;
  const Outcome done = run({{"train", "--config", whole_run().config, "--out", scratch / "run", "--threads", "2"}});
  ASSERT_EQ(done.code, 0) << done.err;
  EXPECT_EQ(read_json(scratch / "run/manifest.json").at("threads"), 2);
  EXPECT_EQ(done.out, whole_run().outcome.out);
  expect_same_run(whole_run().path, scratch / "run");
}

// Fault 137: `taskset -c` to one core leaves one thread.
TEST(Training, UsesNoMoreThreadsThanTheCoresItMayUse) {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  ASSERT_EQ(sched_getaffinity(0, sizeof allowed, &allowed), 0);
  int core = 0;
  while (!CPU_ISSET(core, &allowed)) ++core;
  const Scratch scratch;
  Command command{{"train", "--config",
                   write_config(scratch / "c.json", tiny_config(write_text(scratch / "text.txt", sample_text()))), "--out",
                   scratch / "run"}};
  command.core = core;
  const Outcome done = run(command);
  ASSERT_EQ(done.code, 0) << done.err;
  EXPECT_EQ(read_json(scratch / "run/manifest.json").at("threads"), 1);
}

/// A locale with a decimal comma for the processes of a test, made where the system has none.
class GermanLocale {
 public:
  GermanLocale() {
    const std::string folder = scratch_.path();
    if (std::system(("localedef -i de_DE -f UTF-8 '" + folder + "/de_DE.UTF-8' >/dev/null 2>&1").c_str()) == 0)
      environment_ = {{"LOCPATH", folder}};
    environment_["LC_ALL"] = "de_DE.UTF-8";
  }
  const std::map<std::string, std::string>& environment() const { return environment_; }
  /// Whether a program that asks for its locale gets the comma.
  bool works() const {
    return run({.arguments = {"%.1f", "0,5"}, .environment = environment_, .program = "/usr/bin/printf"}).out == "0,5";
  }

 private:
  Scratch scratch_;
  std::map<std::string, std::string> environment_;
};

// Fault 126. The run is repeated from nothing but the config.json that the whole run left.
TEST(Training, GivesTheSameBytesUnderALocaleWithADecimalComma) {
  const GermanLocale german;
  if (!german.works()) {
    std::fprintf(stderr, "SKIPPED: no de_DE locale here, and localedef cannot make one\n");
    GTEST_SKIP() << "no de_DE locale here, and localedef cannot make one";
  }
  const WholeRun& whole = whole_run();
  const Scratch scratch;
  const Outcome done = run({.arguments = {"train", "--config", whole.path / "config.json", "--out", scratch / "run"},
                            .environment = german.environment()});
  ASSERT_EQ(done.code, 0) << done.err;
  EXPECT_EQ(done.out, whole.outcome.out);
  expect_same_run(whole.path, scratch / "run");
  EXPECT_EQ(read_file(scratch / "run/config.json"), read_file(whole.path / "config.json"));
  const std::string path = whole.path;
  for (const std::vector<std::string>& arguments : {std::vector<std::string>{"report", path},
                                                    {"report", path, "--format", "md"},
                                                    {"report", path, "--format", "csv"},
                                                    {"report", path, "--format", "json"},
                                                    {"compare", path, path, "--fail-on", "ppl>+0.5%"},
                                                    {"compare", path, path, "--format", "json"},
                                                    {"schemes"},
                                                    {"schema"}}) {
    const Outcome here = run({.arguments = arguments, .environment = german.environment()}),
                  plain = run({.arguments = arguments, .environment = {{"LC_ALL", "C"}}});
    EXPECT_EQ(here.code, 0) << here.err;
    EXPECT_EQ(here.out, plain.out) << ::testing::PrintToString(arguments);
  }
}

// Fault 121: one owner at a time, whatever the second one wants to do.
TEST(Training, LeavesADirectoryToTheProcessThatOwnsIt) {
  const Scratch scratch;
  Json config = tiny_config(write_text(scratch / "text.txt", sample_text()));
  config["train"]["steps"] = 10'000'000;
  const std::string file = write_config(scratch / "c.json", config);
  const fs::path path = scratch / "run";
  Process owner({{"train", "--config", file, "--out", path}});
  ASSERT_TRUE(owner.wait_until([&] { return has_logged(path, 1); }));
  for (const char* mode : {"--resume", "--overwrite"}) {
    const Outcome second = run({{"train", "--config", file, "--out", path, mode}});
    EXPECT_EQ(second.code, 2) << second.err;
    EXPECT_THAT(second.err,
                AllOf(HasSubstr(path.string() + " is in use by process " + std::to_string(owner.pid())), HasSubstr("--out")));
    EXPECT_TRUE(owner.running());
  }
  owner.signal(SIGTERM);
  EXPECT_EQ(owner.wait().code, 75);
}

TEST(Training, LetsOneOfTwoProcessesStartedAtOnceHaveTheDirectory) {
  const Scratch scratch;
  const std::string file = write_config(scratch / "c.json", tiny_config(write_text(scratch / "text.txt", sample_text())));
  const Command command{{"train", "--config", file, "--out", scratch / "run", "--threads", "1"}};
  Process one(command), two(command);
  const int a = one.wait().code, b = two.wait().code;
  EXPECT_EQ(std::minmax({a, b}), (std::pair{0, 2}));
  EXPECT_EQ(read_metrics(scratch / "run").size(), 3u);
  EXPECT_EQ(read_json(scratch / "run/results.json").at("status"), "ok");
}

}  // namespace
}  // namespace posenc
