// Every task's answers against a solver that knows only the question, and what else a task must keep.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "data/corpora.h"
#include "data/task_solvers.h"
#include "data/tasks/task.h"

namespace posenc {
namespace {

using ::testing::HasSubstr;

TaskConfig config_of(const Json& json) {
  const Document document{json, "task", {}};
  std::vector<Problem> problems;
  TaskConfig config;
  EXPECT_TRUE(Codec<TaskConfig>::read(document.root, config, {}, Reader(document, problems))) << json;
  return config;
}

/// Every task, and the parameters that change what it asks.
std::vector<TaskConfig> variations() {
  std::vector<TaskConfig> all;
  for (const TaskInfo& info : tasks()) all.push_back(config_of(info.name));
  for (const char* text : {R"({"task": "copy", "form": "same"})",
                           R"({"task": "copy", "form": "replaced", "symbols": 5})",
                           R"({"task": "copy", "form": "random_twice"})",
                           R"({"task": "copy", "form": "same_twice"})",
                           R"({"task": "reverse", "form": "twice"})",
                           R"({"task": "reverse", "form": "words"})",
                           R"({"task": "selective_copy", "blanks": 0.95})",
                           R"({"task": "sorting", "form": "numbers", "digits": 4})",
                           R"({"task": "addition", "reversed": true})",
                           R"({"task": "addition", "index_hints": true})",
                           R"({"task": "addition", "index_hints": true, "reversed": true})",
                           R"({"task": "summation", "modulus": 3})",
                           R"({"task": "polynomial", "modulus": 7, "degree": 9})",
                           R"({"task": "modular_arithmetic", "modulus": 10})",
                           R"({"task": "modular_arithmetic", "operators": "+-"})",
                           R"({"task": "counting", "variables": 1, "reset": 0.5})",
                           R"({"task": "flip_flop", "write": 0.8})",
                           R"({"task": "induction", "symbols": 2})",
                           R"({"task": "variable_tracking", "chains": 5})",
                           R"({"task": "passkey", "digits": 2})",
                           R"({"task": "needle", "needles": 16, "digits": 1})"})
    all.push_back(config_of(Json::parse(text)));
  return all;
}

/// A few lengths that the task has, its shortest among them.
std::vector<std::int64_t> lengths_of(const Task& task) {
  std::int64_t shortest = 1;
  while (!task.misfit(shortest).empty()) ++shortest;
  std::vector<std::int64_t> lengths;
  for (const std::int64_t more : {0, 1, 2, 6, 17, 31, 200}) {
    if (task.misfit(shortest + more).empty()) lengths.push_back(shortest + more);
  }
  return lengths;
}

/// Calls visit(length, depth, example) for examples of several lengths and depths.
template <class Visit>
void for_examples(const Task& task, Visit visit) {
  for (const std::int64_t length : lengths_of(task)) {
    for (std::uint64_t i = 0; i < 60; ++i) {
      Rng rng(derive_seed(1, "test", i));
      const double depth = static_cast<double>(i) / 59;
      visit(length, depth, task.draw(length, depth, rng));
    }
  }
}

/// The corpus of the task `novel`, whose other files the tests do without.
bool installed(const TaskConfig& config) {
  const Corpus& austen = find_corpus("austen");
  return config.name != "novel" || std::filesystem::exists(austen.file(austen.parts[2]));
}

class EveryTask : public ::testing::TestWithParam<TaskConfig> {
 protected:
  void SetUp() override {
    if (!installed(config())) GTEST_SKIP() << "needs the corpus austen: scripts/fetch_corpora austen";
  }
  const TaskConfig& config() const { return GetParam(); }
  const std::unique_ptr<Task> task_ = make_task(GetParam());
};

TEST_P(EveryTask, GivesTheAnswerThatASolverFinds) {
  if (config().name == "novel") return;  // see Novel below
  const Solver& solve = solvers().at(config().name);
  for_examples(*task_, [&](std::int64_t length, double, const Example& example) {
    if (config().name == "addition" && length > 37) return;  // the solver's integers end there
    EXPECT_EQ(example.answer, solve(example.prompt, config().parameters)) << example.prompt;
  });
}

TEST_P(EveryTask, UsesItsAlphabetAndNoOtherCharacter) {
  const std::string alphabet = task_->alphabet();
  EXPECT_EQ(std::set<char>(alphabet.begin(), alphabet.end()).size(), alphabet.size());
  for_examples(*task_, [&](std::int64_t, double, const Example& example) {
    EXPECT_EQ((example.prompt + example.answer).find_first_not_of(alphabet), std::string::npos) << example.prompt;
    EXPECT_FALSE(example.prompt.empty());
    EXPECT_FALSE(example.answer.empty()) << example.prompt;
  });
}

TEST_P(EveryTask, KeepsToTheLongestItNames) {
  for_examples(*task_, [&](std::int64_t length, double, const Example& example) {
    EXPECT_LE(static_cast<std::int64_t>(example.prompt.size() + example.answer.size()), task_->longest(length));
  });
}

TEST_P(EveryTask, AsksNoQuestionAtTwoLengths) {
  std::map<std::string, std::int64_t> length_of;
  for_examples(*task_, [&](std::int64_t length, double, const Example& example) {
    EXPECT_EQ(length_of.emplace(example.prompt, length).first->second, length) << example.prompt;
  });
}

TEST_P(EveryTask, DrawsTheSameFromTheSameSeedAndOthersFromOthers) {
  const std::int64_t length = lengths_of(*task_).back();
  std::set<std::string> prompts;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    Rng one(seed), two(seed);
    const Example first = task_->draw(length, 0.5, one), second = task_->draw(length, 0.5, two);
    EXPECT_EQ(first.prompt, second.prompt);
    EXPECT_EQ(first.answer, second.answer);
    prompts.insert(first.prompt);
  }
  EXPECT_GT(prompts.size(), 3u);  // of 40; one task has five questions
}

std::string name_of(const ::testing::TestParamInfo<TaskConfig>& info) {
  std::string name = info.param.label();
  std::ranges::replace_if(
      name, [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); }, '_');
  return name + "_" + std::to_string(info.index);
}

INSTANTIATE_TEST_SUITE_P(Tasks, EveryTask, ::testing::ValuesIn(variations()), name_of);

TEST(Tasks, EachHasASolverATitleAndAPaper) {
  for (const TaskInfo& info : tasks()) {
    EXPECT_TRUE(solvers().contains(info.name) || info.name == "novel") << info.name;
    EXPECT_FALSE(info.title.empty() || info.paper.empty() || info.length.empty()) << info.name;
  }
}

TEST(Tasks, TheBoundOnTheirSizeIsReached) {
  for (const TaskConfig& config : variations()) {
    if (!installed(config)) continue;
    if (config.name == "scan" || config.label() == "counting(variables=1,reset=0.5)") continue;  // seldom
    const auto task = make_task(config);
    const std::int64_t length = lengths_of(*task)[2];
    std::size_t most = 0;
    for (std::uint64_t seed = 0; seed < 4000; ++seed) {
      Rng rng(seed);
      const Example e = task->draw(length, 0.5, rng);
      most = std::max(most, e.prompt.size() + e.answer.size());
    }
    EXPECT_EQ(static_cast<std::int64_t>(most), task->longest(length)) << config.label();
  }
}

// The grammar has 20910 commands (Lake and Baroni 2018), of 1 to 48 actions, and up to nine words.
TEST(Scan, KnowsTheCommandsOfItsPaper) {
  const auto task = make_task(config_of("scan"));
  EXPECT_EQ(task->misfit(1), "");
  EXPECT_EQ(task->misfit(48), "");
  EXPECT_THAT(task->misfit(49), HasSubstr("49 actions"));
  EXPECT_THAT(task->misfit(23), HasSubstr("23 actions"));
  std::set<std::string> of_48;
  std::size_t words = 0;
  for (std::uint64_t seed = 0; seed < 4000; ++seed) {
    Rng rng(seed);
    const Example e = task->draw(48, 0, rng);
    of_48.insert(e.prompt);
    words = std::max(words, e.prompt.size());
  }
  EXPECT_EQ(of_48.size(), 128u);  // (a verb around a side) thrice, joined in two ways: (4·2)²·2
  EXPECT_EQ(words, 9u);
}

TEST(Passkey, HidesTheKeyAtTheDepthAskedFor) {
  const auto task = make_task(config_of("passkey"));
  const std::int64_t room = 500 - 21 - 23;  // less "what is the pass key?" and "the pass key is 00000. "
  for (const double depth : {0.0, 0.25, 0.5, 1.0}) {
    Rng rng(3);
    const Example e = task->draw(500, depth, rng);
    EXPECT_EQ(e.prompt.size(), 500u);
    EXPECT_EQ(e.prompt.find("the pass key is"), static_cast<std::size_t>(depth * room)) << depth;
  }
}

TEST(Needle, AsksForTheNeedleAtTheDepthAskedFor) {
  const auto task = make_task(config_of("needle"));
  Rng rng(4);
  const Example first = task->draw(600, 0, rng), last = task->draw(600, 1, rng);
  EXPECT_EQ(first.prompt.substr(0, 5), first.prompt.substr(first.prompt.size() - 6, 5));
  const std::string key = last.prompt.substr(last.prompt.size() - 6, 5);
  EXPECT_EQ(last.prompt.find(key),
            600 - std::string("which number has apple?").size() - std::string("apple has number 000. ").size());
}

TEST(Addition, GivesDigitsOfOneWeightTheSameHint) {
  const auto task = make_task(config_of({{"task", "addition"}, {"index_hints", true}}));
  Rng rng(5);
  const Example e = task->draw(3, 0, rng);
  const auto hints = [](const std::string& pairs) {
    std::string letters;
    for (std::size_t i = 0; i < pairs.size(); i += 2) letters += pairs[i];
    return letters;
  };
  const std::size_t plus = e.prompt.find('+');
  EXPECT_EQ(hints(e.answer), hints(e.prompt.substr(0, plus)));
  EXPECT_EQ(hints(e.answer), hints(e.prompt.substr(plus + 1)));
  EXPECT_THAT(task->misfit(52), HasSubstr("52 index hints"));
  EXPECT_EQ(task->misfit(51), "");
}

// A window of 200 bytes stands in one novel only: the last whose title comes before it.
TEST(Novel, IsTheOneThatTheWindowStandsIn) {
  if (!installed(config_of("novel"))) GTEST_SKIP() << "needs the corpus austen: scripts/fetch_corpora austen";
  const Corpus& austen = find_corpus("austen");
  std::string all;
  for (const CorpusPart& part : austen.parts) all += read_part(austen, part);
  std::vector<std::size_t> begins;
  for (const char* title :
       {"EMMA\n", "MANSFIELD PARK\n", "PRIDE AND PREJUDICE\n", "NORTHANGER ABBEY\n", "Persuasion\n", "SENSE AND SENSIBILITY\n"}) {
    begins.push_back(all.find(std::string(title) + "\n"));
    ASSERT_NE(begins.back(), std::string::npos) << title;
  }
  std::ranges::replace_if(
      all, [](char c) { return c < ' ' || c > '~'; }, ' ');
  const auto task = make_task(config_of("novel"));
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    Rng rng(seed);
    const Example e = task->draw(200, 0, rng);
    const std::size_t at = all.find(e.prompt);
    ASSERT_NE(at, std::string::npos);
    EXPECT_EQ(all.find(e.prompt, at + 1), std::string::npos);
    EXPECT_EQ(e.answer, std::to_string(std::ranges::upper_bound(begins, at) - begins.begin()));
    EXPECT_FALSE(e.source.empty());
  }
}

TEST(TaskConfig, NamesWhatDiffersFromTheDefaults) {
  EXPECT_EQ(config_of("copy").label(), "copy");
  EXPECT_EQ(config_of("duplicate_string").label(), "copy");
  EXPECT_EQ(config_of({{"task", "copy"}, {"form", "same"}}).label(), "copy(form=same)");
}

}  // namespace
}  // namespace posenc
