// `posenc eval`: a finished run again, as it was or otherwise.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "cli/process.h"
#include "cli/runs.h"

namespace posenc {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

/// The distinct values of a member of the cells.
template <class T>
std::set<T> values(const Json& results, const char* key) {
  std::set<T> all;
  for (const Json& cell : results.at("cells")) all.insert(cell.at(key).get<T>());
  return all;
}

// The tokenizer's state is kept in the run: the same characters get the same numbers.
TEST(Eval, RepeatsTheNumbersOfACharacterRunFromItsDirectory) {
  const Scratch scratch;
  Json config =
      tiny_config(write_text(scratch / "text.txt", "\u00fcber \u4e2d\u6587 \u00df " + sample_text() + " \u00e9t\u00e9"));
  config["data"]["tokenizer"] = "char";
  const fs::path path = scratch / "chars";
  const Outcome trained = run({{"train", "--config", write_config(scratch / "c.json", config), "--out", path}});
  ASSERT_EQ(trained.code, 0) << trained.err;
  const auto files = snapshot(path);
  const Outcome again = run({.arguments = {"eval", ".", "--out", scratch / "again.json"}, .directory = path});
  ASSERT_EQ(again.code, 0) << again.err;
  EXPECT_EQ(again.out, trained.out);
  const Json before = read_json(path / "results.json"), after = read_json(scratch / "again.json");
  for (const char* key : {"cells", "by_position", "protocol_hash", "unit", "parameters"})
    EXPECT_EQ(after.at(key), before.at(key)) << key;
  EXPECT_EQ(before.at("unit"), "char");
  expect_untouched(path, files);  // evaluating changes nothing in the run
}

TEST(Eval, TakesOtherLengthsExtensionsProtocolsAndText) {
  const WholeRun& whole = whole_run();
  const Scratch scratch;
  const fs::path other = write_text(scratch / "other.txt", sample_text(3000)), out = scratch / "out.json";
  const auto files = snapshot(whole.path);
  const Outcome done = run({{"eval", whole.path, "--lengths", "8,24", "--extend", R"({"method": "pi", "factor": 2})",
                             "--protocol", "sliding", "--data", other, "--set", "/eval/tokens=100", "--out", out}});
  ASSERT_EQ(done.code, 0) << done.err;
  const Json results = read_json(out);
  EXPECT_THAT(values<int>(results, "length"), ElementsAre(8, 24));
  EXPECT_THAT(values<std::string>(results, "protocol"), ElementsAre("sliding"));
  EXPECT_THAT(values<std::string>(results, "extension"), UnorderedElementsAre("none", "pi", "pi(factor=2)"));
  EXPECT_THAT(values<int>(results, "targets"), ElementsAre(99));  // each of the 99 targets of 100 tokens once
  EXPECT_THAT(values<std::string>(results, "status"), ElementsAre("ok"));
  EXPECT_NE(results.at("protocol_hash"), read_json(whole.path / "results.json").at("protocol_hash"));
  EXPECT_THAT(done.out, HasSubstr("pi(factor=2)"));
  expect_untouched(whole.path, files);
  EXPECT_EQ(run({{"compare", whole.path, out}}).code, 3);  // other protocols are not compared
}

TEST(Eval, RefusesWhatTheRunCannotDo) {
  const std::string path = whole_run().path;
  const Scratch scratch;
  const std::vector<std::vector<std::string>> wrong = {{"eval", scratch / "nothing"},
                                                       {"eval", path, "--lengths", "0"},
                                                       {"eval", path, "--lengths", "8,x"},
                                                       {"eval", path, "--lengths", "8,8"},
                                                       {"eval", path, "--lengths", "100000"},
                                                       {"eval", path, "--extend", "rope"},
                                                       {"eval", path, "--extend", ""},
                                                       {"eval", path, "--extend", "pi"},  // the run has it
                                                       {"eval", path, "--extend", R"({"method": "pi", "factor": 0.5})"},
                                                       {"eval", path, "--extend", R"({"method": "pi")"},
                                                       {"eval", path, "--protocol", "fixed"},
                                                       {"eval", path, "--split", "all"},
                                                       {"eval", path, "--set", "/eval/window=3"},
                                                       {"eval", path, "--data", scratch / "missing.txt"},
                                                       {"eval", killed_run().path}};
  for (const auto& arguments : wrong) {
    const Outcome refused = run({arguments});
    EXPECT_EQ(refused.code, 2) << ::testing::PrintToString(arguments) << refused.err;
    EXPECT_THAT(refused.out, IsEmpty());
  }
}

}  // namespace
}  // namespace posenc
