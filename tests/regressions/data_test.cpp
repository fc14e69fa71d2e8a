// Texts that are missing, too short, or not those the run began with.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <regex>
#include <string>

#include "cli/process.h"
#include "cli/runs.h"

namespace posenc {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class DataCommand : public ::testing::Test {
 protected:
  DataCommand() : text_(write_text(scratch_ / "text.txt", sample_text())) {}

  Outcome train(const Json& path, const std::vector<std::string>& more = {}, bool as_nobody = false) {
    Json config = tiny_config("");
    config["data"]["path"] = path;
    config["eval"]["lengths"] = {1};
    Command command{{"train", "--config", write_config(scratch_ / "c.json", config), "--out", out()}};
    command.arguments.insert(command.arguments.end(), more.begin(), more.end());
    command.as_nobody = as_nobody;
    return run(command);
  }
  Json with_test_file(const std::string& bytes) {
    return {
        {"train", text_}, {"valid", write_text(scratch_ / "v.txt", "valid")}, {"test", write_text(scratch_ / "t.txt", bytes)}};
  }
  fs::path out() const { return scratch_ / "run"; }

  void expect_refused(const Outcome& outcome, int code, const ::testing::Matcher<std::string>& message) {
    EXPECT_EQ(outcome.code, code) << outcome.err;
    EXPECT_THAT(outcome.err, message);
    EXPECT_THAT(outcome.out, IsEmpty());
    EXPECT_FALSE(fs::exists(out())) << "a run directory was left behind";
  }

  Scratch scratch_;
  std::string text_;
};

// Fault 75: different words for each, with the path.
TEST_F(DataCommand, NamesATextThatIsMissingEmptyTooShortOrNoFile) {
  const std::string missing = scratch_ / "missing.txt", empty = write_text(scratch_ / "empty.txt", ""),
                    two = write_text(scratch_ / "two.txt", "ab");
  expect_refused(train(missing), 2, HasSubstr("/data/path: " + missing + " does not exist"));
  expect_refused(train(scratch_.path().string()), 2, HasSubstr(scratch_.path().string() + " is a directory"));
  expect_refused(train(empty), 65, HasSubstr(empty + " is empty"));
  expect_refused(train(two), 65, HasSubstr(two + " holds 2 bytes, too few to split 90/5/5"));
}

TEST_F(DataCommand, NamesATextThatMayNotBeRead) {
  fs::permissions(scratch_.path(), fs::perms(0777));
  fs::permissions(text_, fs::perms(0));
  const Outcome refused = train(text_, {}, true);
  if (refused.code == 126 || refused.code == 127) GTEST_SKIP() << "the user nobody cannot reach the executable here";
  expect_refused(refused, 74, HasSubstr("cannot open " + text_ + ": Permission denied"));
}

// Fault 58: one byte has no target, two bytes have one.
TEST_F(DataCommand, ScoresTheOneTargetOfTwoBytesAndRefusesNone) {
  expect_refused(train(with_test_file("a")), 2, AllOf(HasSubstr("t.txt"), HasSubstr("1 tokens, so 0 targets")));
  const Outcome scored = train(with_test_file("ab"));
  ASSERT_EQ(scored.code, 0) << scored.err;
  const Json results = read_json(out() / "results.json");
  ASSERT_EQ(results.at("cells").size(), 2u);
  for (const Json& cell : results.at("cells")) {
    EXPECT_EQ(cell.at("targets"), 1);
    EXPECT_TRUE(cell.at("nll").is_number());
  }
}

// Fault 84: the same lines with CRLF are another text, and a run does not go on over another text.
TEST_F(DataCommand, RefusesToResumeOverAnotherText) {
  ASSERT_EQ(train(text_).code, 0);
  const auto files = snapshot(out());
  write_text(text_, std::regex_replace(sample_text(), std::regex("\n"), "\r\n"));
  const Outcome refused = train(text_, {"--resume"});
  EXPECT_EQ(refused.code, 2) << refused.err;
  const std::string before = read_json(out() / "manifest.json").at("data").at("train").at("sha256");
  EXPECT_THAT(refused.err, AllOf(HasSubstr("the train text has changed"), HasSubstr(before)));
  expect_untouched(out(), files);
}

// Fault 92: old and new value of everything that differs, and nothing is touched.
TEST(ResumedConfig, RefusesOtherSettingsWithOldAndNewValue) {
  const fs::path path = killed_run().path;
  const auto files = snapshot(path);
  const Outcome refused = run({{"train", "--config", whole_run().config, "--out", path, "--resume", "--set", "/train/steps=200",
                                "--set", "/model/position=\"alibi\"", "--set", "/data/tokenizer=\"char\""}});
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err, AllOf(HasSubstr("/train/steps: the run has 120, the config says 200"),                       //
                                 HasSubstr("/model/position/scheme: the run has \"rope\", the config says \"alibi\""),  //
                                 HasSubstr("/data/tokenizer: the run has \"byte\", the config says \"char\"")));
  expect_untouched(path, files);
}

}  // namespace
}  // namespace posenc
