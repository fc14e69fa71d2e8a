// `posenc generate`: text from a finished run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "cli/process.h"
#include "cli/runs.h"

namespace posenc {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

Outcome generate(std::vector<std::string> options) {
  std::vector<std::string> arguments = {"generate", whole_run().path};
  arguments.insert(arguments.end(), options.begin(), options.end());
  return run({arguments});
}

// The model has learned words of 12 kinds a little; greedy text is of their letters.
TEST(Generate, ContinuesAPromptTheSameWayEveryTime) {
  const Outcome once = generate({"--prompt", "the cat ", "--tokens", "40"});
  ASSERT_EQ(once.code, 0) << once.err;
  EXPECT_EQ(once.out.size(), 41u);  // bytes and a newline
  EXPECT_EQ(once.out.find_first_not_of("abcdefghijklmnopqrstuvwxyz .\n"), std::string::npos) << once.out;
  EXPECT_EQ(generate({"--prompt", "the cat ", "--tokens", "40"}).out, once.out);
  EXPECT_EQ(generate({"--prompt", "the cat ", "--tokens", "40", "--threads", "2", "--seed", "9"}).out, once.out);
}

TEST(Generate, DrawsByItsSeedAndFewerTokensAreTheBeginning) {
  std::set<std::string> texts;
  for (const char* seed : {"1", "2", "3"})
    texts.insert(generate({"--prompt", "the ", "--tokens", "20", "--temperature", "1", "--seed", seed}).out);
  EXPECT_EQ(texts.size(), 3u);
  const auto drawn = [](const char* count) {
    return generate({"--prompt", "the ", "--tokens", count, "--temperature", "1", "--top-k", "5", "--top-p", "0.9"}).out;
  };
  const std::string shorter = drawn("6");
  EXPECT_EQ(drawn("12").substr(0, 6), shorter.substr(0, 6));
}

TEST(Generate, TakesSeveralPromptsExtensionsAndGivesJson) {
  const Scratch scratch;
  const auto file = write_text(scratch / "prompt.txt", "dogs ");
  const Outcome done =
      generate({"--prompt", "a mat ", "--prompt-file", file, "--tokens", "30", "--extend", "yarn", "--format", "json"});
  ASSERT_EQ(done.code, 0) << done.err;
  const Json all = Json::parse(done.out);
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[1]["prompt"], "dogs ");
  EXPECT_EQ(all[0]["tokens"].size(), 30u);
  // Alone it goes on as in a batch.
  EXPECT_EQ(generate({"--prompt", "a mat ", "--tokens", "30", "--extend", "yarn"}).out, all[0]["text"].get<std::string>() + "\n");
  EXPECT_NE(generate({"--prompt", "a mat ", "--tokens", "30", "--extend", R"({"method": "ntk", "factor": 9})"}).out,
            all[0]["text"].get<std::string>() + "\n");
}

TEST(Generate, RefusesWhatCannotBe) {
  for (const std::vector<std::string>& wrong : std::vector<std::vector<std::string>>{{},
                                                                                     {"--prompt", ""},
                                                                                     {"--prompt", "a", "--tokens", "0"},
                                                                                     {"--prompt", "a", "--extend", "rope"},
                                                                                     {"--prompt", "a", "--temperature", "-1"},
                                                                                     {"--prompt", "a", "--top-p", "2"}}) {
    const Outcome refused = generate(wrong);
    EXPECT_EQ(refused.code, 2) << ::testing::PrintToString(wrong) << refused.err;
    EXPECT_THAT(refused.out, IsEmpty());
  }
  EXPECT_THAT(generate({}).err, HasSubstr("--prompt"));
  EXPECT_EQ(run({{"generate", killed_run().path, "--prompt", "a"}}).code, 2);
}

}  // namespace
}  // namespace posenc
