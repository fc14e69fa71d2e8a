// Runs that were killed or stopped go on to the very bits of a run that was not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>

#include "cli/process.h"
#include "cli/runs.h"

namespace posenc {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// Goes on with the run at `path` until `event`, and sends it `signal`.
Outcome interrupt(const fs::path& path, int signal, const std::function<bool()>& event) {
  Process training({{"train", "--config", whole_run().config, "--out", path, "--resume"}});
  EXPECT_TRUE(training.wait_until(event)) << "it ended before it could be interrupted: " << training.wait().err;
  training.signal(signal);
  return training.wait();
}

// Faults 85, 90, 91, 93, 95, 132: killed within the warm-up, after it, and while evaluating; weights, numbers and logged steps
// are those of the whole run.
TEST(Interrupted, KilledThreeTimesEndsWithTheSameBits) {
  const Scratch scratch;
  const fs::path path = killed_run().copy_to(scratch / "run");  // the first kill; warm-up ends at 40
  ASSERT_LT(read_metrics(path).size(), 120u);
  EXPECT_EQ(interrupt(path, SIGKILL, [&] { return has_logged(path, 75); }).signal, SIGKILL);
  EXPECT_EQ(interrupt(path, SIGKILL, [&] { return fs::exists(path / "model.safetensors"); }).signal, SIGKILL);
  EXPECT_FALSE(fs::exists(path / "results.json"));
  const Outcome done = resume(path);
  ASSERT_EQ(done.code, 0) << done.err;
  EXPECT_EQ(done.out, whole_run().outcome.out);
  EXPECT_THAT(done.err, HasSubstr("resuming whole at step 120 of 120"));
  expect_same_run(whole_run().path, path);
}

// Fault 106.
TEST(Interrupted, StoppedInTrainingSavesAndGoesOn) {
  const Scratch scratch;
  const fs::path path = scratch / "run";
  const Outcome stopped = interrupt(path, SIGTERM, [&] { return has_logged(path, 33); });
  EXPECT_EQ(stopped.code, 75);
  EXPECT_THAT(stopped.out, IsEmpty());
  const std::size_t steps = read_metrics(path).size();
  EXPECT_EQ(stopped.err, "posenc: stopped at step " + std::to_string(steps) + " of 120; --resume continues it\n");
  EXPECT_FALSE(fs::exists(path / "results.json"));
  const Outcome done = resume(path);
  ASSERT_EQ(done.code, 0) << done.err;
  EXPECT_THAT(done.err,
              HasSubstr("resuming whole at step " + std::to_string(steps) + " of 120"));  // not at the checkpoint before
  EXPECT_EQ(read_json(path / "manifest.json").at("resumes"), 1);
  expect_same_run(whole_run().path, path);
}

// A phase goes on with the weights of the one before, also when the run was killed in the middle of either.
TEST(Interrupted, APhaseIsResumedWithItsOwnModel) {
  const Scratch scratch;
  Json config = read_json(whole_run().config);
  config["train"]["steps"] = 40;
  config["train"]["checkpoint_every"] = 10;
  config["train"]["log_every"] = 1;
  config["train"]["phases"] = {{{"position", {{"scheme", "learned"}}}, {"steps", 40}}, {{"position", "none"}, {"steps", 40}}};
  config["eval"].erase("extensions");
  const fs::path file = write_config(scratch / "phases.json", config), whole = scratch / "whole", killed = scratch / "killed";
  ASSERT_EQ(run({{"train", "--config", file, "--out", whole}}).code, 0);
  EXPECT_EQ(read_json(whole / "results.json").at("scheme"),
            read_json(whole_run().path / "results.json").at("scheme").get<std::string>() + " -> learned -> none");
  EXPECT_EQ(read_metrics(whole).size(), 120u);
  for (const std::size_t steps : {25, 65, 105}) {
    Process training({{"train", "--config", file, "--out", killed, "--resume"}});
    ASSERT_TRUE(training.wait_until([&] { return has_logged(killed, steps); })) << training.wait().err;
    training.signal(SIGKILL);
    training.wait();
  }
  ASSERT_EQ(run({{"train", "--config", file, "--out", killed, "--resume"}}).code, 0);
  expect_same_run(whole, killed);
}

TEST(Interrupted, StoppedInEvaluationGoesOnWithoutTrainingAgain) {
  const Scratch scratch;
  const fs::path path = killed_run().copy_to(scratch / "run");
  const Outcome stopped = interrupt(path, SIGUSR1, [&] { return fs::exists(path / "model.safetensors"); });
  EXPECT_EQ(stopped.code, 75) << stopped.err;
  EXPECT_THAT(stopped.err, HasSubstr("evaluation"));
  EXPECT_FALSE(fs::exists(path / "results.json"));
  EXPECT_EQ(resume(path).code, 0);
  expect_same_run(whole_run().path, path);
}

/// Whether the process has a handler for the signal, as Linux shows it.
bool catches(pid_t pid, int signal) {
  std::ifstream status("/proc/" + std::to_string(pid) + "/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("SigCgt:")) return (std::stoull(line.substr(7), nullptr, 16) >> (signal - 1) & 1) != 0;
  }
  return false;
}

// posenc hands tensor work over to posenc-torch. A signal that comes before or during that must not be lost on the way.
TEST(Interrupted, IsNotDeafWhileItStarts) {
  const Scratch scratch;
  const std::string file = write_config(scratch / "c.json", tiny_config(write_text(scratch / "text.txt", sample_text())));
  for (int i = 0; i < 3; ++i) {
    Process training({{"train", "--config", file, "--out", scratch / "run", "--resume"}});
    ASSERT_TRUE(training.wait_until([&] { return catches(training.pid(), SIGTERM); }));
    training.signal(SIGTERM);
    const Outcome stopped = training.wait();
    EXPECT_EQ(stopped.code, 75) << stopped.err;
    EXPECT_FALSE(fs::exists(scratch / "run/results.json"));
  }
}

TEST(Interrupted, EndsAtOnceOnTheSecondSignal) {
  const Scratch scratch;
  Json config = tiny_config(write_text(scratch / "text.txt", sample_text()));
  config["train"]["batch_tokens"] = 1 << 23;  // a step of many seconds, in which the first signal has to wait
  const std::string file = write_config(scratch / "long.json", config);
  for (const int last : {SIGTERM, SIGINT}) {
    const fs::path path = scratch / std::to_string(last);
    Process training({{"train", "--config", file, "--out", path, "--threads", "1"}});
    ASSERT_TRUE(training.wait_until([&] { return fs::exists(path / "metrics.jsonl"); }));
    training.signal(SIGTERM);
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    ASSERT_TRUE(training.running());
    const auto sent = std::chrono::steady_clock::now();
    training.signal(last);
    EXPECT_EQ(training.wait().code, 128 + last);
    EXPECT_LT(std::chrono::steady_clock::now() - sent, std::chrono::seconds(2));
  }
}

}  // namespace
}  // namespace posenc
