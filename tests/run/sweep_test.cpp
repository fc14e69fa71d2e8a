#include "run/sweep.h"

#include <gmock/gmock.h>

#include <fstream>
#include <set>

#include "core/scratch.h"

namespace posenc {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;

const std::string kBase = "\"base\": {\"model\": {\"position\": \"rope\"}}";

class SweepTest : public testing::Test {
 protected:
  Sweep load(const std::string& text, const std::string& file = "lengths.json") const {
    std::ofstream(scratch_ / file) << text;
    return load_sweep(scratch_ / file);
  }
  std::string refusal(const std::string& text) const {
    return message_of<ConfigError>([&] { load(text); });
  }
  const Scratch scratch_;
};

std::vector<std::string> values(const Sweep& sweep) {
  std::vector<std::string> all;
  for (const SweepCell& cell : sweep.cells) all.push_back(cell.values);
  return all;
}

TEST_F(SweepTest, IsTheProductOfItsListsAndTheLastVariesFastest) {
  const Sweep sweep = load("{" + kBase + ", \"vary\": {\"/model/position\": [\"rope\", \"alibi\"], \"/seed\": [1, 2, 3]}}");
  EXPECT_EQ(sweep.name, "lengths");
  EXPECT_THAT(values(sweep), ElementsAre("position=rope seed=1", "position=rope seed=2", "position=rope seed=3",
                                         "position=alibi seed=1", "position=alibi seed=2", "position=alibi seed=3"));
  const SweepCell& last = sweep.cells.back();
  ASSERT_TRUE(last.experiment.has_value());
  EXPECT_EQ(last.error, "");
  EXPECT_EQ(last.experiment->seed, 3);
  EXPECT_EQ(last.experiment->model.position.name, "alibi");
  EXPECT_EQ(last.experiment->name, last.name);
  EXPECT_THAT(last.name, MatchesRegex("alibi-128-s3-[0-9a-f]{8}"));
}

TEST_F(SweepTest, ListsOfZipAdvanceTogetherAsOneMoreFactor) {
  const Sweep sweep = load("{" + kBase +
                           ", \"vary\": {\"/seed\": [1, 2]}, \"zip\": {\"/train/length\": [32, 64, 128], "
                           "\"/train/batch_tokens\": [2048, 4096, 4096]}}");  // a value may come again: the pairs differ
  EXPECT_THAT(values(sweep), ElementsAre("seed=1 length=32 batch_tokens=2048", "seed=1 length=64 batch_tokens=4096",
                                         "seed=1 length=128 batch_tokens=4096", "seed=2 length=32 batch_tokens=2048",
                                         "seed=2 length=64 batch_tokens=4096", "seed=2 length=128 batch_tokens=4096"));
  EXPECT_EQ(sweep.cells[3].experiment->train.length, 32);
  EXPECT_EQ(sweep.cells[3].experiment->train.batch_tokens, 2048);
  EXPECT_THAT(refusal("{" + kBase + ", \"zip\": {\"/seed\": [1, 2], \"/train/length\": [64]}}"),
              AllOf(HasSubstr("lengths.json:1:"), HasSubstr("lists of zip have 2 and 1 values")));
}

TEST_F(SweepTest, WithoutListsItIsItsBase) {
  const Sweep sweep = load("{\"name\": \"single\", " + kBase + "}");
  EXPECT_EQ(sweep.name, "single");
  ASSERT_EQ(sweep.cells.size(), 1u);
  EXPECT_EQ(sweep.cells[0].experiment->model.position.name, "rope");
}

TEST_F(SweepTest, TheBaseMayBeAFileBesideIt) {
  std::ofstream(scratch_ / "rope.json") << "{\"name\": \"ignored\", \"seed\": 5, \"model\": {\"position\": \"rope\"}}";
  const Sweep sweep = load("{\"base\": \"rope.json\", \"vary\": {\"/train/length\": [64]}}");
  EXPECT_EQ(sweep.cells.at(0).experiment->seed, 5);
  EXPECT_EQ(sweep.cells.at(0).experiment->train.length, 64);
  EXPECT_THROW(load("{\"base\": \"missing.json\"}"), IoError);
}

// Fault 119: each run has a folder of its own, however its config is spelt.
TEST_F(SweepTest, TheSameRunTwiceIsRefused) {
  EXPECT_THAT(refusal("{" + kBase + ", \"vary\": {\"/train/warmup\": [2, 2, 4]}}"),
              AllOf(HasSubstr("lengths.json:1:"), HasSubstr("the value 2 is given twice; repeat runs by varying /seed")));
  EXPECT_THAT(refusal("{" + kBase + ", \"vary\": {\"/model/position\": [\"rope\", \"alibi\", \"rotary\"]}}"),
              HasSubstr("\"position=rope\" and \"position=rotary\" are the same run"));
  EXPECT_THAT(refusal("{" + kBase + ", \"vary\": {\"/model/position\": [\"rope\", {\"scheme\": \"rope\", \"base\": 1e4}]}}"),
              HasSubstr("are the same run"));
  EXPECT_THAT(refusal("{" + kBase + ", \"zip\": {\"/seed\": [1, 1], \"/train/length\": [64, 64]}}"),
              HasSubstr("are the same run"));
  EXPECT_THAT(refusal("{" + kBase + ", \"vary\": {\"/seed\": [1, 2]}, \"zip\": {\"/seed\": [3, 4]}}"),
              HasSubstr("are the same run"));
}

TEST_F(SweepTest, ADirectoryIsAFunctionOfTheResolvedConfig) {
  const auto name = [&](const std::string& base) { return load("{\"base\": {" + base + "}}").cells.at(0).name; };
  const std::string plain = name("\"model\": {\"position\": \"rope\"}");
  EXPECT_EQ(
      name("\"model\": {\"position\": {\"base\": 10000, \"scheme\": \"rotary\"}, \"heads\": 4.0}, \"seed\": 1, \"name\": \"x\""),
      plain);
  EXPECT_EQ(name("\"model\": {\"position\": \"rope\"}, \"runtime\": {\"threads\": 2}"), plain);  // changes no number
  EXPECT_NE(name("\"model\": {\"position\": \"rope\"}, \"train\": {\"lr\": 0.002}"), plain);
  EXPECT_NE(name("\"model\": {\"position\": {\"scheme\": \"rope\", \"base\": 9999}}"), plain);
}

// Fault 117: a cell that is wrong stands beside the others, with its reason.
TEST_F(SweepTest, AnInvalidCellIsKeptWithItsError) {
  const Sweep sweep = load("{" + kBase + ", \"vary\": {\"/model/heads\": [4, 7, 128]}}");
  ASSERT_EQ(sweep.cells.size(), 3u);
  EXPECT_TRUE(sweep.cells[0].experiment.has_value());
  EXPECT_FALSE(sweep.cells[1].experiment.has_value());
  EXPECT_THAT(sweep.cells[1].name, MatchesRegex("invalid-[0-9a-f]{8}"));
  EXPECT_EQ(sweep.cells[1].error,
            "--set /model/heads=7: /model/heads: 7 does not divide d_model 128 (try 4 or 8, or give head_dim)");
  EXPECT_THAT(sweep.cells[2].error, HasSubstr("head_dim 1 is too small"));
  EXPECT_NE(sweep.cells[1].name, sweep.cells[2].name);
}

TEST_F(SweepTest, ItsOwnMistakesAreAllReported) {
  EXPECT_THAT(refusal("{" + kBase + ", \"vary\": {\"seed\": [1], \"/train/length\": [], \"/train/steps\": 3}, \"zap\": {}}"),
              HasSubstr("unknown key \"zap\" (did you mean \"zip\"?)"));
  EXPECT_THAT(refusal("{" + kBase + ", \"vary\": {\"seed\": [1], \"/train/length\": [], \"/train/steps\": 3}}"),
              AllOf(HasSubstr("a key is a JSON pointer such as /train/length"),
                    HasSubstr("/vary/~1train~1length: expected a list of at least one value"),
                    HasSubstr("/vary/~1train~1steps: expected a list of at least one value")));
  EXPECT_THAT(refusal("{\"vary\": {}}"), HasSubstr("missing key \"base\""));
  EXPECT_THAT(refusal("{\"base\": 3, \"vary\": []}"),
              AllOf(HasSubstr("/base: expected an experiment object"), HasSubstr("/vary: expected an object")));
}

TEST_F(SweepTest, ATypingErrorDoesNotStartAYearOfWork) {
  std::string seeds = "0";
  for (int i = 1; i <= 100; ++i) seeds += ", " + std::to_string(i);
  const std::string vary = ", \"vary\": {\"/seed\": [" + seeds + "], \"/train/warmup\": [" + seeds + "]}}";  // 101 · 101
  EXPECT_THAT(refusal("{" + kBase + vary), HasSubstr("more than 10000 cells"));
}

}  // namespace
}  // namespace posenc
