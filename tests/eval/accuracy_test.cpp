// What counts as a right answer, on models whose every prediction is known.
#include "eval/accuracy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "train/batch_source.h"

namespace posenc {
namespace {

using ::testing::HasSubstr;

/// Predicts, for each input, what `script` makes of the row up to it.
class Scripted : public LanguageModel {
 public:
  using Script = std::function<std::int64_t(const std::vector<std::int64_t>& seen)>;
  explicit Scripted(Script script) : script_(std::move(script)) {}
  Tensor hidden(const Tensor& tokens, const Pass&) const override {
    Tensor predicted = torch::zeros({tokens.size(0), tokens.size(1), 1}, torch::kInt64);
    for (std::int64_t b = 0; b < tokens.size(0); ++b) {
      std::vector<std::int64_t> seen;
      for (std::int64_t i = 0; i < tokens.size(1); ++i) {
        seen.push_back(tokens[b][i].item<std::int64_t>());
        predicted[b][i][0] = script_(seen);
      }
    }
    return predicted;
  }
  Tensor logits(const Tensor& hidden) const override { return torch::one_hot(hidden.squeeze(-1), 64).to(torch::kFloat32); }
  void initialise(std::uint64_t) override {}
  std::string refusal(std::int64_t length, const Extension*) const override {
    return length > 30 ? "30 positions are all there are" : "";
  }

 private:
  Script script_;
};

/// Copies what stands between the start and the mark before the answer, and answers nonsense everywhere else.
std::int64_t copying(const std::vector<std::int64_t>& seen) {
  const auto mark = std::find(seen.begin(), seen.end(), kAnswer);
  if (mark == seen.end()) return 63;
  const auto given = static_cast<std::size_t>(seen.end() - mark - 1), prompt = static_cast<std::size_t>(mark - seen.begin() - 1);
  return given < prompt ? seen[1 + given] : 63;  // 63 where </s> belongs
}

TaskData copy_task(std::vector<std::int64_t> test_lengths, std::int64_t examples = 100) {
  DataConfig config = from_json<DataConfig>({{"kind", "task"},
                                             {"task", {{"task", "copy"}, {"symbols", 3}}},
                                             {"train_lengths", {1, 6}},
                                             {"test_lengths", test_lengths},
                                             {"examples", examples}});
  config.resolve();
  return TaskData(config);
}

EvalSettings settings(int threads = 1) {
  EvalSettings s;
  s.threads = threads;
  return s;
}

// The model is wrong at every token of the question, at the one that ends the answer, and in the padding.
TEST(Accuracy, ScoresTheAnswerAndNothingElse) {
  const auto accuracy = evaluate_accuracy(Scripted(copying), copy_task({5, 7}), settings());
  ASSERT_EQ(accuracy.size(), 2u);
  for (const Accuracy& a : accuracy) {
    EXPECT_EQ(a.status, "ok") << a.reason;
    EXPECT_EQ(*a.exact_match, 1);
    EXPECT_EQ(*a.token_accuracy, 1);
  }
  EXPECT_EQ(accuracy[1].examples, 100);
}

TEST(Accuracy, KnowingAllButTheAnswerIsNothing) {
  const Scripted model([](const std::vector<std::int64_t>& seen) {
    return std::find(seen.begin(), seen.end(), kAnswer) == seen.end() ? seen.back() : std::int64_t{kEnd};
  });
  const auto accuracy = evaluate_accuracy(model, copy_task({7}), settings());
  EXPECT_EQ(*accuracy[0].exact_match, 0);
  EXPECT_EQ(*accuracy[0].token_accuracy, 0);
}

// Wrong at the second token of answers whose question begins with "a" (token 4): a seventh of their tokens.
TEST(Accuracy, OneWrongTokenSpoilsAnAnswer) {
  const Scripted model([](const std::vector<std::int64_t>& seen) {
    const auto mark = std::find(seen.begin(), seen.end(), kAnswer);
    return seen[1] == 4 && seen.end() - mark == 2 ? std::int64_t{63} : copying(seen);
  });
  const TaskData data = copy_task({7}, 200);
  int spoilt = 0;
  for (const Example& e : data.examples("test", 7, 0)) spoilt += e.prompt[0] == 'a';
  ASSERT_GT(spoilt, 20);
  const auto accuracy = evaluate_accuracy(model, data, settings());
  EXPECT_NEAR(*accuracy[0].exact_match, 1 - spoilt / 200.0, 1e-12);
  EXPECT_NEAR(*accuracy[0].token_accuracy, 1 - spoilt / 1400.0, 1e-12);
  EXPECT_LT(*accuracy[0].low, *accuracy[0].exact_match);
  EXPECT_GT(*accuracy[0].high, *accuracy[0].exact_match);
}

TEST(Accuracy, RefusesWhatTheModelOrTheTaskDoesNotHave) {
  // Length 20 needs 42 inputs. One symbol of length 1 makes three questions, which may all be for training.
  const auto accuracy = evaluate_accuracy(Scripted(copying), copy_task({20}), settings());
  EXPECT_EQ(accuracy[0].status, "refused");
  EXPECT_EQ(accuracy[0].reason, "30 positions are all there are");
  EXPECT_FALSE(accuracy[0].exact_match.has_value());
  EvalSettings of_training = settings();
  of_training.config.split = "train";
  const auto none = evaluate_accuracy(Scripted(copying), copy_task({7}), of_training);
  EXPECT_EQ(none[0].status, "refused");
  EXPECT_THAT(none[0].reason, HasSubstr("length 7"));
}

TEST(Accuracy, IsTheSameOnAnyNumberOfThreads) {
  ModelConfig config = from_json<ModelConfig>({{"layers", 1}, {"d_model", 16}, {"heads", 2}, {"position", "rope"}});
  config.resolve();
  const TaskData data = copy_task({5, 9}, 300);
  const auto model = make_model(config, 7, data.inputs(6));
  model->initialise(3);
  const auto one = evaluate_accuracy(*model, data, settings(1)), three = evaluate_accuracy(*model, data, settings(3));
  for (std::size_t i = 0; i < one.size(); ++i) {
    EXPECT_EQ(one[i].exact_match, three[i].exact_match);
    EXPECT_EQ(one[i].token_accuracy, three[i].token_accuracy);
  }
}

TEST(Accuracy, HasARowForEachExtensionLengthAndDepth) {
  DataConfig config = from_json<DataConfig>(
      {{"kind", "task"}, {"task", "passkey"}, {"train_lengths", {64, 80}}, {"test_lengths", {64, 100}}, {"depths", {0, 0.5, 1}}});
  config.resolve();
  const auto eval = from_json<EvalConfig>({{"extensions", {"pi", {{"method", "pi"}, {"factor", 2}}}}});
  const auto rows = accuracy_without_numbers(TaskData(config), eval, "diverged", "loss is not finite");
  ASSERT_EQ(rows.size(), 3u * 2 * 3);
  EXPECT_EQ(rows[0].extension, "none");
  EXPECT_EQ(rows[17].extension, "pi(factor=2)");
  EXPECT_EQ(rows[17].length, 100);
  EXPECT_EQ(*rows[17].depth, 1);
  EXPECT_EQ(rows[4].status, "diverged");
}

TEST(TaskProtocolHash, ChangesWithEveryQuestionAndNothingElse) {
  const EvalConfig eval;
  const std::string hash = task_protocol_hash(copy_task({5, 7}), eval);
  EXPECT_EQ(hash, task_protocol_hash(copy_task({5, 7}), eval));
  EXPECT_NE(hash, task_protocol_hash(copy_task({5, 8}), eval));
  EXPECT_NE(hash, task_protocol_hash(copy_task({5, 7}, 99), eval));
}

// Inputs and targets of "ab" and "c" as rows; the shorter one first, as task_batches has them.
TEST(PadSequences, AlignsTargetsWithWhatPredictsThem) {
  const TaskData data = copy_task({5});
  const Batch batch = pad_sequences({data.encode({"c", "c"}), data.encode({"ab", "ab"})});
  const auto s = [](const char c) { return std::int64_t{c - 'a' + 4}; };
  const Tensor inputs = torch::tensor(
      {{std::int64_t{kStart}, s('c'), std::int64_t{kAnswer}, s('c'), std::int64_t{kPadding}, std::int64_t{kPadding}},
       {std::int64_t{kStart}, s('a'), s('b'), std::int64_t{kAnswer}, s('a'), s('b')}});
  const Tensor targets =
      torch::tensor({{std::int64_t{-1}, std::int64_t{-1}, s('c'), std::int64_t{kEnd}, std::int64_t{-1}, std::int64_t{-1}},
                     {std::int64_t{-1}, std::int64_t{-1}, std::int64_t{-1}, s('a'), s('b'), std::int64_t{kEnd}}});
  EXPECT_TRUE(batch.inputs.equal(inputs)) << batch.inputs;
  EXPECT_TRUE(batch.targets.equal(targets)) << batch.targets;
  EXPECT_EQ(batch.positions, 4 + 6);
}

TEST(TaskBatches, AreAFunctionOfTheStepWithTheShortestFirst) {
  const TaskData data = copy_task({5});
  TrainConfig config;
  config.length = 14, config.batch_tokens = 14 * 20;
  const BatchSource batches = task_batches(data, config, 5), again = task_batches(data, config, 5),
                    other = task_batches(data, config, 6);
  const Batch third = batches(2);
  EXPECT_TRUE(third.inputs.equal(again(2).inputs));
  EXPECT_FALSE(third.inputs.sizes() == other(2).inputs.sizes() && third.inputs.equal(other(2).inputs));
  EXPECT_EQ(third.inputs.size(0), 20);
  const Tensor sizes = (third.inputs != kPadding).sum(1);
  EXPECT_TRUE((sizes.slice(0, 1) >= sizes.slice(0, 0, -1)).all().item<bool>());
}

}  // namespace
}  // namespace posenc
