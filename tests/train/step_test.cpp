#include "train/step.h"

#include <gtest/gtest.h>

#include <cmath>

namespace posenc {
namespace {

constexpr std::int64_t kVocab = 11, kLength = 12;

/// A small model with parameters of every kind: grouped key/value heads, biases, a scheme's table.
ModelConfig small_model(const std::string& scheme, bool tied = true) {
  ModelConfig config = from_json<ModelConfig>({{"layers", 2},
                                               {"d_model", 16},
                                               {"heads", 4},
                                               {"kv_heads", 2},
                                               {"d_ff", 24},
                                               {"bias", true},
                                               {"norm", "layernorm"},
                                               {"tie_embeddings", tied},
                                               {"position", scheme}});
  config.resolve();
  return config;
}

/// A model, its optimizer, and what a step left.
struct Trained {
  std::shared_ptr<LanguageModel> model;
  std::unique_ptr<AdamW> optimizer;
  std::vector<StepResult> results;
};

Trained fresh(const ModelConfig& config, torch::ScalarType dtype = torch::kFloat32) {
  Trained t;
  t.model = make_model(config, kVocab, kLength, dtype);
  t.model->initialise(7);
  t.optimizer = std::make_unique<AdamW>(t.model->parameters(), TrainConfig{});
  return t;
}

/// Sets a parameter.
void overwrite(const Tensor& parameter, const Tensor& value) {
  const torch::NoGradGuard no_grad;
  parameter.copy_(value);
}

/// Tokens that are a pure function of the step.
Tensor tokens(std::int64_t sequences, std::int64_t step) {
  return (torch::arange(sequences * (kLength + 1)).pow(2) * (step + 3) + torch::arange(sequences * (kLength + 1)) * 5)
      .remainder(kVocab)
      .view({sequences, kLength + 1});
}

StepOptions options(int threads, std::int64_t micro_batch) {
  StepOptions o;
  o.lr = 0.01;
  o.threads = threads;
  o.micro_batch = micro_batch;
  return o;
}

StepResult step(Trained& t, const Tensor& batch, const StepOptions& o) {
  t.results.push_back(train_step(*t.model, *t.optimizer, batch.slice(1, 0, kLength), batch.slice(1, 1), o));
  return t.results.back();
}

/// Whether parameters, moments (gradients, that is), losses and norms have the same bits.
void expect_same_bits(Trained& a, Trained& b, const std::string& what) {
  const auto pa = a.model->named_parameters(), pb = b.model->named_parameters();
  for (std::size_t i = 0; i < pa.size(); ++i) {
    EXPECT_TRUE(pa[i].value().equal(pb[i].value())) << what << " " << pa[i].key();
    EXPECT_TRUE(a.optimizer->first_moments()[i].equal(b.optimizer->first_moments()[i])) << what << " gradient of " << pa[i].key();
  }
  ASSERT_EQ(a.results.size(), b.results.size()) << what;
  for (std::size_t s = 0; s < a.results.size(); ++s) {
    EXPECT_EQ(a.results[s].loss, b.results[s].loss) << what;
    EXPECT_EQ(a.results[s].grad_norm, b.results[s].grad_norm) << what;
  }
}

/// √Σ m² over all first moments.
double moment_norm(Trained& t) { return gradient_norm(t.optimizer->first_moments()); }

// Fault 135: the number of threads changes no bit, of gradients or parameters, nor does running twice.
TEST(TrainStep, OneTwoAndSixThreadsGiveTheSameBits) {
  for (const std::string scheme : {"t5", "rope"}) {
    for (const double rate : {0.0, 0.2}) {
      ModelConfig config = small_model(scheme);
      config.dropout = rate;
      std::vector<Trained> runs;
      for (const int threads : {1, 2, 6, 6}) {
        runs.push_back(fresh(config));
        for (std::int64_t s = 0; s < 3; ++s) {
          StepOptions o = options(threads, 2);
          o.dropout = rate;
          o.dropout_seed = static_cast<std::uint64_t>(s);
          step(runs.back(), tokens(9, s), o);  // five pieces, the last one short
        }
        expect_same_bits(runs[0], runs.back(), scheme + " on " + std::to_string(threads) + " threads");
      }
    }
  }
}

TEST(TrainStep, PiecesOfAnySizeAddUpToTheWholeBatch) {
  Trained whole = fresh(small_model("t5"), torch::kFloat64);
  const StepResult want = step(whole, tokens(5, 0), options(1, 5));
  for (const std::int64_t micro_batch : {1, 2, 3, 8}) {
    Trained parts = fresh(small_model("t5"), torch::kFloat64);
    const StepResult got = step(parts, tokens(5, 0), options(2, micro_batch));
    EXPECT_NEAR(got.loss, want.loss, 1e-13) << micro_batch;  // float64 sums in another order
    EXPECT_NEAR(got.grad_norm, want.grad_norm, 1e-13) << micro_batch;
  }
}

TEST(TrainStep, LossIsTheMeanPerTargetBeforeTheUpdate) {
  Trained t = fresh(small_model("none", false));
  overwrite(t.model->named_parameters()["head"], torch::zeros({kVocab, 16}));
  // A head of zeros predicts every token alike: ln 11, whatever the batch and its pieces.
  EXPECT_NEAR(step(t, tokens(5, 0), options(1, 2)).loss, 2.3978953, 1e-6);
  EXPECT_LT(step(t, tokens(5, 0), options(1, 2)).loss, 2.397);  // the first step did move it
}

TEST(TrainStep, ClippingBoundsTheGradientThatTheOptimizerSees) {
  Trained free = fresh(small_model("rope")), clipped = fresh(small_model("rope"));
  StepOptions o = options(1, 8);
  o.grad_clip = 0;
  const StepResult result = step(free, tokens(4, 0), o);
  ASSERT_GT(result.grad_norm, 0.05);
  EXPECT_NEAR(moment_norm(free), 0.1 * result.grad_norm, 1e-6 * result.grad_norm);  // m = (1 − β₁)·g, in float32
  o.grad_clip = 0.05;
  EXPECT_EQ(step(clipped, tokens(4, 0), o).grad_norm, result.grad_norm);  // the norm before clipping is what is reported
  EXPECT_NEAR(moment_norm(clipped), 0.1 * 0.05, 1e-6);  // clip / (norm + 1e-6) falls short of the clip by up to 1e-6/norm
}

// Fault 103, the step's part: what is not finite is not applied, neither to the parameters nor to the moments.
TEST(TrainStep, ANanLossLeavesModelAndOptimizerAsTheyWere) {
  Trained t = fresh(small_model("rope")), twin = fresh(small_model("rope"));
  for (Trained* each : {&t, &twin}) step(*each, tokens(4, 0), options(1, 2));
  const Tensor embedding = t.model->named_parameters()["embedding"];
  const Tensor sound = embedding.detach().clone();
  Tensor broken = sound.clone();
  broken[3].fill_(std::nan(""));
  overwrite(embedding, broken);
  EXPECT_FALSE(step(t, tokens(4, 1), options(2, 2)).finite);
  EXPECT_EQ(t.optimizer->updates(), 1);
  t.results.pop_back();
  EXPECT_TRUE(embedding.detach()[0].equal(sound[0]));
  overwrite(embedding, sound);
  expect_same_bits(t, twin, "after the refused step");
}

TEST(TrainStep, AnInfiniteGradientBehindAFiniteLossIsNotApplied) {
  Trained t = fresh(small_model("none", false));
  // Embeddings of zero: the last norm makes zeros of them, so logits are 0 and the loss ln 11; but the gradient passes a head of
  // 1e38 and a layernorm's 1/√ε ≈ 316, which is beyond float32.
  for (const auto& item : t.model->named_parameters()) {
    if (item.key().find("norm") == std::string::npos) overwrite(item.value(), torch::zeros_like(item.value()));
  }
  overwrite(t.model->named_parameters()["head"], torch::eye(kVocab, 16) * 1e38);
  std::vector<Tensor> before;
  for (const Tensor& p : t.model->parameters()) before.push_back(p.detach().clone());
  const StepResult result = step(t, tokens(1, 0), options(1, 1));
  EXPECT_NEAR(result.loss, 2.3978953, 1e-6);
  EXPECT_FALSE(std::isfinite(result.grad_norm));
  EXPECT_FALSE(result.finite);
  EXPECT_EQ(t.optimizer->updates(), 0);
  const std::vector<Tensor> after = t.model->parameters();
  for (std::size_t i = 0; i < after.size(); ++i) EXPECT_TRUE(after[i].equal(before[i]));
}

TEST(TrainStep, AnErrorInOnePieceEndsTheStepAndNotTheOthersWait) {
  Trained t = fresh(small_model("rope"));
  Tensor batch = tokens(6, 0);
  batch[1][3] = kVocab;  // no such token
  for (const int threads : {1, 2, 6}) EXPECT_ANY_THROW(step(t, batch, options(threads, 1))) << threads;
  EXPECT_EQ(t.optimizer->updates(), 0);
}

/// A batch as a task makes it: the first tokens of each row are a question, the last of some rows padding; −1 is not scored.
std::pair<Tensor, Tensor> partly_scored(const Tensor& batch) {
  Tensor targets = batch.slice(1, 1).clone();
  const std::int64_t ends[] = {7, 9, 12, 12, 5, 8};
  for (std::int64_t row = 0; row < targets.size(0); ++row) {
    targets[row].slice(0, 0, 3).fill_(-1);
    targets[row].slice(0, ends[row % 6]).fill_(-1);
  }
  return {batch.slice(1, 0, kLength), targets};
}

// −log softmax of the scored targets alone, in double.
TEST(TrainStep, LossIsTheMeanOverScoredTargets) {
  const auto [inputs, targets] = partly_scored(tokens(6, 1));
  Trained t = fresh(small_model("rope"), torch::kFloat64);
  const Tensor log_p = torch::log_softmax(t.model->logits(t.model->hidden(inputs, {})), -1);
  double sum = 0;
  int count = 0;
  for (std::int64_t b = 0; b < 6; ++b) {
    for (std::int64_t i = 0; i < kLength; ++i) {
      const auto target = targets[b][i].item<std::int64_t>();
      if (target < 0) continue;
      sum -= log_p[b][i][target].item<double>();
      ++count;
    }
  }
  ASSERT_EQ(count, 4 + 6 + 9 + 9 + 2 + 5);
  const StepResult result = train_step(*t.model, *t.optimizer, inputs, targets, options(1, 4));
  EXPECT_NEAR(result.loss, sum / count, 1e-12);
}

// What stands after the last scored target is padding: any token there, or none, gives the same bits.
TEST(TrainStep, PaddingChangesNoBit) {
  const auto [inputs, targets] = partly_scored(tokens(6, 2));
  Tensor other = inputs.clone();
  for (std::int64_t row = 0; row < 6; ++row) {
    const auto last = (targets[row] >= 0).nonzero().max().item<std::int64_t>();
    other[row].slice(0, last + 1).fill_(row);
  }
  ASSERT_FALSE(other.equal(inputs));
  const Tensor longer = torch::nn::functional::pad(other, torch::nn::functional::PadFuncOptions({0, 5}).value(3));
  const Tensor unscored = torch::nn::functional::pad(targets, torch::nn::functional::PadFuncOptions({0, 5}).value(-1));
  for (const std::string scheme : {"rope", "t5", "learned"}) {
    Trained a = fresh(small_model(scheme)), b = fresh(small_model(scheme)), c = fresh(small_model(scheme));
    a.results.push_back(train_step(*a.model, *a.optimizer, inputs, targets, options(2, 4)));
    b.results.push_back(train_step(*b.model, *b.optimizer, other, targets, options(2, 4)));
    c.results.push_back(train_step(*c.model, *c.optimizer, longer, unscored, options(1, 4)));
    expect_same_bits(a, b, scheme);
    expect_same_bits(a, c, scheme);
  }
}

TEST(TrainStep, TheQuestionIsReadThoughItIsNotScored) {
  const auto [inputs, targets] = partly_scored(tokens(6, 3));
  Tensor other = inputs.clone();
  other.select(1, 0).fill_(0);
  Trained a = fresh(small_model("rope")), b = fresh(small_model("rope"));
  EXPECT_NE(train_step(*a.model, *a.optimizer, inputs, targets, options(1, 4)).loss,
            train_step(*b.model, *b.optimizer, other, targets, options(1, 4)).loss);
}

}  // namespace
}  // namespace posenc
