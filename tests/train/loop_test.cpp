// The training loop over many steps. A single step is for step_test.cpp, interruptions for tests/regressions.
#include "train/loop.h"

#include <gtest/gtest.h>

#include "conformance/conformance.h"
#include "eval/evaluate.h"

namespace posenc {
namespace {

std::string some_text() {
  std::string text;
  for (int i = 0; i < 900; ++i) text += std::to_string(i * i) + (i % 7 == 0 ? ".\n" : " ");
  return text;
}

/// A model after 200 steps, and what it makes of the text in short and long windows, by as many threads.
struct Trained {
  Trained(const Json& position, int threads)
      : model(make_model(tiny_config({{"position", position}, {"kv_heads", 2}}), 256, kTrainLength)) {
    at::set_num_threads(1);
    const Dataset dataset = text_dataset(some_text());
    model->initialise(3);
    TrainSettings settings;
    settings.config = {
        .length = kTrainLength, .batch_tokens = 96, .micro_batch_tokens = 32, .steps = 200, .lr = 0.01, .warmup = 10};
    settings.config.resolve();
    settings.seed = 3;
    settings.dropout = 0.1;
    settings.threads = threads;
    AdamW optimizer(model->parameters(), settings.config);
    LoopState state;
    TrainHooks hooks;
    hooks.log = [&](const StepMetrics& m) { losses.push_back(m.loss); };
    hooks.progress = [](std::int64_t, double) {};
    hooks.checkpoint = [](std::int64_t) {};
    hooks.stop = [] { return false; };
    EXPECT_EQ(train(*model, optimizer, text_batches(dataset.train, settings.config, settings.seed), settings, state, hooks).step,
              200);
    EvalSettings evaluation;
    evaluation.config =
        from_json<EvalConfig>({{"lengths", {16, 300}}, {"protocols", {"fixed_target", "nonoverlapping"}}, {"windows", 3}});
    evaluation.config.resolve(kTrainLength);
    evaluation.threads = threads;
    for (const Cell& cell : evaluate(*model, dataset, evaluation).cells) nll.push_back(*cell.nll);
  }
  std::shared_ptr<LanguageModel> model;
  std::vector<double> losses, nll;
};

TEST(TrainLoop, TwoHundredStepsOnOneAndTwoThreadsEndInTheSameBits) {
  for (const Json& position : {Json("rope"), Json("alibi"), Json("fire"), Json("shaw"), Json("fox"), Json("learned")}) {
    Json named = position;
    if (position == "learned") named = {{"scheme", "learned"}, {"overflow", "interpolate"}};  // whole at every length
    const Trained one(named, 1), two(named, 2);
    EXPECT_EQ(one.losses, two.losses) << named;
    EXPECT_EQ(one.nll, two.nll) << named;
    EXPECT_LT(one.losses.back(), 0.75 * one.losses.front()) << named << " has learned nothing";
    const auto a = one.model->named_parameters(), b = two.model->named_parameters();
    for (const auto& item : a) EXPECT_TRUE(torch::equal(item.value(), b[item.key()])) << named << " " << item.key();
  }
}

// A window that is scored alone is shared out between the threads, by heads, tiles and rows.
TEST(Evaluate, OneToThreeThreadsWithinALongWindowGiveTheSameBits) {
  const auto model = tiny_model({{"position", "alibi"}}, torch::kFloat32, 256);
  const Tensor tokens = torch::randint(256, {1, 3000}, torch::make_generator<torch::CPUGeneratorImpl>(2), torch::kInt64);
  const torch::NoGradGuard no_grad;
  Pass pass;
  const Tensor one = model->hidden(tokens, pass);
  for (const int threads : {2, 3}) {
    pass.threads = threads;
    EXPECT_TRUE(torch::equal(model->hidden(tokens, pass), one)) << threads;
  }
}

}  // namespace
}  // namespace posenc
