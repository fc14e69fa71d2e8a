// Which examples are for training and which for tests, and the tokens they become.
#include "data/task_data.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "core/error.h"
#include "data/dataset.h"

namespace posenc {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

DataConfig config_of(Json json) {
  json["kind"] = "task";
  DataConfig config = from_json<DataConfig>(json);
  config.resolve();
  return config;
}

/// A sequence as text: "<s>ab<answer>ab</s>".
std::string text_of(const TaskData& data, const TaskSequence& sequence) {
  return make_symbol_tokenizer(data.task().alphabet())->decode(sequence.tokens);
}

TEST(TaskData, PutsMarksAroundQuestionAndAnswer) {
  const TaskData data(config_of({{"task", "copy"}, {"train_lengths", {1, 4}}}));
  const TaskSequence sequence = data.encode({"ab", "abab"});
  EXPECT_EQ(text_of(data, sequence), "<s>ab<answer>abab</s>");
  EXPECT_THAT(sequence.tokens, ElementsAre(kStart, 4, 5, kAnswer, 4, 5, 4, 5, kEnd));
  EXPECT_EQ(sequence.inputs(), 8);
  EXPECT_EQ(sequence.first_target(), 3);  // <answer> predicts the first a
  EXPECT_EQ(sequence.answer, 4);
  EXPECT_EQ(data.inputs(4), 10);  // <s>, four, <answer>, four
}

// Every question of training by its text, against those of the tests at the same lengths and beyond.
TEST(TaskData, NoQuestionIsInTwoParts) {
  for (const char* task : {"copy", "parity", "addition", "associative_recall", "scan"}) {
    const TaskData data(
        config_of({{"task", task}, {"train_lengths", {1, 8}}, {"test_lengths", {2, 5, 8, 12}}, {"examples", 200}}));
    std::set<std::string> trained, validated, tested;
    for (const TaskSequence& s : data.sequences("train", 7, 0, 4000)) trained.insert(text_of(data, s));
    for (const TaskSequence& s : data.sequences("valid", 7, 0, 400)) validated.insert(text_of(data, s));
    for (const std::int64_t length : {2, 5, 8, 12}) {
      for (const Example& e : data.examples("test", length, 0)) tested.insert(text_of(data, data.encode(e)));
    }
    EXPECT_GT(trained.size(), 100u) << task;
    EXPECT_GT(tested.size(), 100u) << task;
    for (const std::string& text : tested) EXPECT_FALSE(trained.contains(text) || validated.contains(text)) << text;
    for (const std::string& text : validated) EXPECT_FALSE(trained.contains(text)) << text;
  }
}

TEST(TaskData, ATenthOfTheQuestionsIsForTestsAndEveryQuestionThatTrainingCannotHave) {
  const TaskData data(config_of({{"task", "copy"}, {"train_lengths", {1, 6}}, {"test_lengths", {6}}}));
  int test = 0, valid = 0;
  Rng rng(1);
  for (int i = 0; i < 10'000; ++i) {
    const Example example = data.task().draw(6, 0, rng);
    const std::string part = data.part_of(example, 6);
    test += part == "test";
    valid += part == "valid";
    EXPECT_EQ(data.part_of(example, 7) == "valid", part == "valid");
    EXPECT_NE(data.part_of(example, 7), "train");
  }
  EXPECT_NEAR(test, 1000, 150);  // five standard deviations of the binomial
  EXPECT_NEAR(valid, 1000, 150);
}

// What a source has is not for two parts, whatever is asked of it and at whatever length.
TEST(TaskData, ASourceGoesToOnePart) {
  const TaskData data(config_of({{"task", "copy"}, {"train_lengths", {1, 6}}, {"test_lengths", {6}}}));
  std::set<std::string> parts;
  for (int source = 0; source < 40; ++source) {
    const std::string part = data.part_of({"a", "a", std::to_string(source)}, 6);
    EXPECT_EQ(data.part_of({"b", "b", std::to_string(source)}, 9), part);
    parts.insert(part);
  }
  EXPECT_THAT(parts, ElementsAre("test", "train", "valid"));
}

TEST(TaskData, TestQuestionsDifferAndAreTheSameEachTime) {
  const Json json = {{"task", "addition"}, {"train_lengths", {1, 4}}, {"test_lengths", {3}}, {"examples", 300}};
  const TaskData one(config_of(json)), two(config_of(json));
  const auto first = one.examples("test", 3, 0), again = two.examples("test", 3, 0);
  ASSERT_EQ(first.size(), 300u);
  std::set<std::string> prompts;
  for (std::size_t i = 0; i < first.size(); ++i) {
    EXPECT_EQ(first[i].prompt, again[i].prompt);
    prompts.insert(first[i].prompt);
  }
  EXPECT_EQ(prompts.size(), 300u);
}

// Of 2^5 strings of five bits there are no more than 32 questions, a tenth of them for the test.
TEST(TaskData, AsksFewerQuestionsWhereThereAreNotAsMany) {
  const TaskData data(config_of({{"task", "parity"}, {"train_lengths", {1, 5}}, {"test_lengths", {5, 6}}}));
  EXPECT_LT(data.examples("test", 5, 0).size(), 12u);
  const std::size_t untrained = data.examples("test", 6, 0).size();
  EXPECT_GT(untrained, 50u);  // of 64, without those for validation
  EXPECT_LT(untrained, 64u);
}

TEST(TaskData, SequencesAreAFunctionOfSeedAndNumber) {
  const TaskData data(config_of({{"task", "reverse"}, {"train_lengths", {2, 9}}}));
  const auto all = data.sequences("train", 3, 0, 50), some = data.sequences("train", 3, 20, 5),
             others = data.sequences("train", 4, 0, 50);
  for (std::size_t i = 0; i < some.size(); ++i) EXPECT_EQ(some[i].tokens, all[20 + i].tokens);
  int same = 0;
  for (std::size_t i = 0; i < all.size(); ++i) same += all[i].tokens == others[i].tokens;
  EXPECT_LT(same, 5);
}

TEST(TaskData, TrainsAtEveryLengthOfTheRangeThatTheTaskHas) {
  const TaskData data(config_of({{"task", "scan"}, {"train_lengths", {20, 24}}, {"test_lengths", {48}}}));
  std::set<std::int64_t> lengths;
  for (const TaskSequence& s : data.sequences("train", 1, 0, 500)) lengths.insert(s.answer);
  EXPECT_THAT(lengths, ElementsAre(20, 21, 22, 24));  // no command leads to 23 actions
}

TEST(TaskData, SaysWhenNothingIsLeftToTrainOn) {
  // One question for each of two symbols; neither is for validation.
  const TaskData data(config_of({{"task", {{"task", "copy"}, {"form", "same"}, {"symbols", 2}}}, {"train_lengths", {1, 1}}}));
  bool valid = false;
  for (const char* prompt : {"a", "b"}) valid = valid || data.part_of({prompt, prompt}, 1) == "valid";
  ASSERT_FALSE(valid);
  EXPECT_THROW(data.sequences("valid", 1, 0, 1), ConfigError);
}

TEST(TaskDataset, TakesTheTokenizerOfARunWithTheSameAlphabetOnly) {
  const DataConfig config = config_of({{"task", "parity"}, {"train_lengths", {1, 5}}});
  const std::shared_ptr<Tokenizer> same = restore_tokenizer({{"tokenizer", "symbol"}, {"alphabet", "01"}}, "tokenizer.json");
  EXPECT_EQ(load_dataset(config, same).tokenizer->vocab_size(), 6);
  const std::shared_ptr<Tokenizer> other = make_symbol_tokenizer("abc");
  EXPECT_THROW(load_dataset(config, other), DataError);
}

std::string problems_of(Json json) {
  try {
    config_of(std::move(json));
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST(TaskConfigRules, NameWhatIsWrongWithATask) {
  EXPECT_THAT(problems_of({{"train_lengths", {1, 5}}}), AllOf(HasSubstr("/task"), HasSubstr("missing")));
  EXPECT_THAT(problems_of({{"task", "coppy"}, {"train_lengths", {1, 5}}}), HasSubstr("did you mean \"copy\"?"));
  EXPECT_THAT(problems_of({{"task", "copy"}}), HasSubstr("/train_lengths"));
  EXPECT_THAT(problems_of({{"task", "copy"}, {"train_lengths", {5, 1}}}), HasSubstr("/train_lengths"));
  EXPECT_THAT(problems_of({{"task", "passkey"}, {"train_lengths", {10, 90}}}), HasSubstr("/train_lengths/0"));
  EXPECT_THAT(problems_of({{"task", "copy"}, {"train_lengths", {1, 5}}, {"test_lengths", {9, 9}}}), HasSubstr("twice"));
  EXPECT_THAT(problems_of({{"task", "copy"}, {"train_lengths", {1, 5}}, {"depths", {0.5}}}), HasSubstr("/depths"));
  EXPECT_THAT(problems_of({{"task", "copy"}, {"train_lengths", {1, 5}}, {"path", "a.txt"}}), HasSubstr("/path"));
  EXPECT_THAT(problems_of({{"task", {{"task", "copy"}, {"from", "same"}}}, {"train_lengths", {1, 5}}}), HasSubstr("form"));
}

TEST(TaskConfigRules, TextHasNoTask) {
  for (const char* text : {R"({"task": "copy"})", R"({"train_lengths": [1, 2]})", R"({"examples": 5})"})
    EXPECT_THROW(from_json<DataConfig>(Json::parse(text)), ConfigError) << text;
}

TEST(TaskConfigRules, LengthsOfTheTestFollowFromThoseOfTraining) {
  EXPECT_THAT(*config_of({{"task", "copy"}, {"train_lengths", {1, 20}}}).test_lengths, ElementsAre(10, 20, 30, 40));
  EXPECT_THAT(*config_of({{"task", "passkey"}, {"train_lengths", {64, 128}}}).depths, ElementsAre(0, 0.25, 0.5, 0.75, 1));
}

}  // namespace
}  // namespace posenc
