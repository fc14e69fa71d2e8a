// `posenc sweep`: grids, failing cells, stopping and going on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "cli/process.h"
#include "cli/runs.h"

namespace posenc {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class SweepCommand : public ::testing::Test {
 protected:
  SweepCommand() : base_(tiny_config(write_text(scratch_ / "text.txt", sample_text()))), out_(scratch_ / "out") {}

  Outcome sweep(const Json& grid, std::vector<std::string> more = {}) {
    Json file = grid;
    file["base"] = base_;
    std::vector<std::string> arguments = {"sweep", "--config", write_config(scratch_ / "grid.json", file), "--out", out_};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run({arguments});
  }
  /// The cells' directories.
  std::vector<fs::path> cells() const {
    std::vector<fs::path> found;
    for (const auto& entry : fs::directory_iterator(out_)) {
      if (entry.is_directory()) found.push_back(entry.path());
    }
    std::sort(found.begin(), found.end());
    return found;
  }

  Scratch scratch_;
  Json base_;
  fs::path out_;
};

int cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

TEST_F(SweepCommand, ListsTheGridAndRunsNothingOnADryRun) {
  const Json grid = {{"vary", {{"/model/position", {"rope", "alibi"}}, {"/seed", {1, 2}}}}};
  const Outcome listed = sweep(grid, {"--dry-run"});
  EXPECT_EQ(listed.code, 0) << listed.err;
  const std::vector<std::string> lines = lines_of(listed.out);
  ASSERT_EQ(lines.size(), 5u) << listed.out;
  EXPECT_EQ(lines[0], "grid: 4 cells");
  const char* const want[] = {"position=rope seed=1", "position=rope seed=2", "position=alibi seed=1", "position=alibi seed=2"};
  for (std::size_t i = 0; i < 4; ++i) EXPECT_THAT(lines[i + 1], HasSubstr(want[i]));
  base_["model"]["heads"] = 3;
  const Outcome invalid = sweep(grid, {"--dry-run"});
  EXPECT_EQ(invalid.code, 2);
  EXPECT_THAT(invalid.out, HasSubstr("/model/heads: 3 does not divide d_model 16"));
  EXPECT_FALSE(fs::exists(out_));
}

// Fault 119, and grids that are wrong as a whole.
TEST_F(SweepCommand, RefusesRepeatedPointsAndUnevenLists) {
  const auto refusal = [&](const char* grid) {
    const Outcome refused = sweep(Json::parse(grid));
    EXPECT_EQ(refused.code, 2) << grid << refused.err;
    EXPECT_FALSE(fs::exists(out_));
    return refused.err;
  };
  EXPECT_THAT(refusal(R"({"vary": {"/seed": [2, 2, 4]}})"),
              AllOf(HasSubstr("grid.json:"), HasSubstr("the value 2 is given twice")));
  EXPECT_THAT(refusal(R"({"vary": {"/model/position": ["rope", "rotary"]}})"), HasSubstr("are the same run"));
  EXPECT_THAT(refusal(R"({"zip": {"/seed": [1, 1]}})"), HasSubstr("are the same run"));
  EXPECT_THAT(refusal(R"({"zip": {"/seed": [1, 2], "/train/steps": [1, 2, 3]}})"), HasSubstr("2 and 3 values"));
  EXPECT_THAT(refusal(R"({"vary": {"/seed": []}})"), HasSubstr("/vary/~1seed"));
  EXPECT_THAT(refusal(R"({"vary": {"seed": [1]}})"), HasSubstr("JSON pointer"));
  EXPECT_THAT(refusal(R"({"vary": {"/seed": 1}})"), HasSubstr("list"));
  EXPECT_THAT(refusal(R"({"vari": {"/seed": [1]}})"), HasSubstr("did you mean \"vary\"?"));
  EXPECT_THAT(refusal(R"({"name": "../x"})"), HasSubstr("run name"));
}

// Faults 117, 118, 138.
TEST_F(SweepCommand, GoesOnAfterCellsThatFailAndSaysWhyEachDid) {
  base_["train"]["warmup"] = 0;
  base_["train"]["steps"] = 20;
  base_["train"]["schedule"] = "constant";
  // One cell diverges, one has an impossible shape; another fails on its text, which is found out only by its own process.
  const Json grid = {{"zip",
                      {{"/model/heads", {2, 2, 3, 4, 2}},
                       {"/train/lr", {0.01, 1e9, 0.01, 0.01, 0.01}},
                       {"/data/path",
                        {scratch_ / "text.txt", scratch_ / "text.txt", scratch_ / "text.txt", scratch_ / "text.txt",
                         scratch_ / "missing.txt"}}}}};
  const Outcome done = sweep(grid, {"--jobs", "8"});
  EXPECT_EQ(done.code, 5) << done.err;
  const std::vector<std::string> reasons = {"not finite at step", "3 does not divide d_model 16", "missing.txt does not exist"};
  for (const std::string& reason : reasons) {
    EXPECT_THAT(done.err, HasSubstr(reason));
    EXPECT_THAT(done.out, HasSubstr(reason));
  }
  EXPECT_THAT(done.err, HasSubstr("2 finished, 0 finished before, 2 failed, 1 diverged"));

  std::map<std::string, int> statuses;
  const Json results = read_json(out_ / "results.json");
  for (const Json& one : results.at("runs")) ++statuses[one.at("status")];
  EXPECT_EQ(statuses, (std::map<std::string, int>{{"ok", 2}, {"diverged", 1}, {"failed", 2}}));
  EXPECT_THAT(run({{"report", out_}}).out, AllOf(HasSubstr(reasons[0]), HasSubstr(reasons[1]), HasSubstr(reasons[2])));
  EXPECT_THAT(read_file(out_ / "report.md"), HasSubstr("failed"));
  int trained = 0, logs = 0;
  for (const fs::path& cell : cells()) {
    if (fs::exists(cell / "train.log")) logs += !read_file(cell / "train.log").empty();
    if (!fs::exists(cell / "results.json")) continue;
    ++trained;
    // 8 jobs were asked for; no more run than there are cores, and each takes its share of them.
    EXPECT_LE(read_json(cell / "manifest.json").at("threads").get<int>() * std::min(8, cores()), cores());
  }
  EXPECT_EQ(trained, 3);
  EXPECT_EQ(logs, 4);
  EXPECT_THAT(done.err, cores() < 8 ? HasSubstr("--jobs 8 is more than the") : HasSubstr(""));

  // Nothing that finished is done again; what cannot work says so again.
  std::map<fs::path, std::pair<fs::file_time_type, std::string>> before;
  for (const fs::path& cell : cells()) {
    for (const char* file : {"results.json", "model.safetensors", "metrics.jsonl"}) {
      if (fs::exists(cell / "results.json") && fs::exists(cell / file))
        before[cell / file] = {fs::last_write_time(cell / file), read_file(cell / file)};
    }
  }
  ASSERT_EQ(before.size(), 8u);  // the diverged run has no weights
  EXPECT_EQ(sweep(grid).code, 2);
  write_text(scratch_ / "missing.txt", sample_text());  // found again
  const Outcome resumed = sweep(grid, {"--resume"});
  EXPECT_EQ(resumed.code, 5);
  EXPECT_THAT(resumed.err, HasSubstr("1 finished, 3 finished before, 1 failed, 1 diverged"));
  for (const auto& [file, state] : before) {
    EXPECT_EQ(fs::last_write_time(file), state.first) << file;
    EXPECT_EQ(read_file(file), state.second) << file;
  }
}

// Faults 106, 123.
TEST_F(SweepCommand, StopsOnASignalAndGoesOnWhereItWas) {
  base_["train"]["steps"] = 300;
  const Json grid = {{"vary", {{"/model/position", {"rope", "alibi"}}, {"/seed", {1, 2}}}}};
  Json file = grid;
  file["base"] = base_;
  const std::string config = write_config(scratch_ / "grid.json", file);
  Process sweeping({{"sweep", "--config", config, "--out", out_, "--jobs", "1"}});
  const auto second = [&]() -> fs::path {  // the cell that runs while another has finished
    if (!fs::exists(out_)) return {};
    int finished = 0;
    fs::path running;
    for (const fs::path& cell : cells()) {
      if (fs::exists(cell / "results.json")) ++finished;
      else if (has_logged(cell, 3)) running = cell;
    }
    return finished == 1 ? running : fs::path();
  };
  ASSERT_TRUE(sweeping.wait_until([&] { return !second().empty(); }));
  const fs::path interrupted = second();
  sweeping.signal(SIGTERM);
  const Outcome stopped = sweeping.wait();
  EXPECT_EQ(stopped.code, 75) << stopped.err;
  EXPECT_FALSE(fs::exists(interrupted / "results.json"));
  EXPECT_FALSE(fs::exists(interrupted / "status.json"));  // stopped, not failed
  EXPECT_THAT(read_file(interrupted / "train.log"), HasSubstr("--resume continues it"));
  ASSERT_EQ(cells().size(), 2u);
  const fs::path first = cells()[0] == interrupted ? cells()[1] : cells()[0];
  const auto untouched = fs::last_write_time(first / "results.json");

  const Outcome resumed = run({{"sweep", "--config", config, "--out", out_, "--resume"}});
  EXPECT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_THAT(resumed.err, HasSubstr("3 finished, 1 finished before, 0 failed, 0 diverged"));
  ASSERT_EQ(cells().size(), 4u);
  EXPECT_EQ(fs::last_write_time(first / "results.json"), untouched);
  EXPECT_EQ(read_json(interrupted / "manifest.json").at("resumes"), 1);
  for (const fs::path& cell : cells()) EXPECT_EQ(read_metrics(cell).size(), 300u) << cell;

  // A changed grid is noticed: seed 2 is no longer part of it.
  const Outcome smaller = sweep({{"vary", {{"/model/position", {"rope", "alibi"}}, {"/seed", {1}}}}}, {"--resume"});
  EXPECT_EQ(smaller.code, 0);
  EXPECT_THAT(smaller.err,
              AllOf(HasSubstr("the grid has changed: "), HasSubstr("(position=alibi seed=2) is no longer part of it")));
  EXPECT_THAT(smaller.err, HasSubstr("0 finished, 2 finished before"));
}

}  // namespace
}  // namespace posenc
