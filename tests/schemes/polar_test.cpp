#include <gtest/gtest.h>

#include "model/attention.h"
#include "schemes/scheme.h"

namespace posenc {
namespace {

Frame frame_of(const std::vector<double>& positions) {
  const Positions values{torch::tensor(positions, torch::kFloat64), 0};
  return {values, values};
}

/// The logit of one query at position i on one key at position j, scaled as attention does.
double logit(const Scheme& scheme, const Tensor& q, double i, const Tensor& k, double j) {
  const Tensor turned_q = scheme.rotate(q.view({1, 1, 1, -1}), Side::kQuery, frame_of({i})).flatten(),
               turned_k = scheme.rotate(k.view({1, 1, 1, -1}), Side::kKey, frame_of({j})).flatten();
  return (turned_q.dot(turned_k) / std::sqrt(static_cast<double>(turned_q.numel()))).item<double>();
}

std::shared_ptr<Scheme> polar(const std::vector<double>& bias) {
  const auto width = static_cast<std::int64_t>(bias.size());
  const auto scheme = make_scheme("polar", Json::object(), {.head_dim = width});
  scheme->to(torch::kFloat64);
  const torch::NoGradGuard no_grad;
  scheme->parameters()[0].copy_(torch::tensor(bias, torch::kFloat64).unsqueeze(0));
  return scheme;
}

// softplus(ln(e − 1)) = 1, softplus(ln(e² − 1)) = 2. Frequencies 1 and 10000^(−1/2) = 0.01.
const double kOne = 0.5413248546129181, kTwo = 1.854586542131141;

TEST(Polar, IsLengthsTimesTheCosineOfTheDistancePerDim) {
  const Tensor q = torch::tensor({kOne, kTwo}, torch::kFloat64), k = torch::tensor({kTwo, kTwo}, torch::kFloat64);
  // (2·cos 3 + 4·cos 0.03)/√2
  EXPECT_NEAR(logit(*polar({0, 0}), q, 5, k, 2), (2 * -0.9899924966004454 + 4 * 0.9995500337489875) / 1.4142135623730951, 1e-13);
  // The key's angle −1: cos(3 + 1) in dim 0.
  EXPECT_NEAR(logit(*polar({-1, 0}), q, 5, k, 2), (2 * -0.6536436208636119 + 4 * 0.9995500337489875) / 1.4142135623730951, 1e-13);
  EXPECT_NEAR(logit(*polar({0, 0}), q, 300005, k, 300002), logit(*polar({0, 0}), q, 5, k, 2), 1e-9);
}

TEST(Polar, TheLearnedAngleIsHeldToOneTurnBelowZero) {
  const Tensor q = torch::tensor({kOne, kTwo}, torch::kFloat64), k = torch::tensor({kTwo, kTwo}, torch::kFloat64);
  EXPECT_EQ(logit(*polar({0.5, 0}), q, 5, k, 2), logit(*polar({0, 0}), q, 5, k, 2));
  EXPECT_NEAR(logit(*polar({-9, 0}), q, 5, k, 2), logit(*polar({0, 0}), q, 5, k, 2), 1e-12);  // −2π
}

// A query and a key of every sign: softplus lets no content turn a logit round.
TEST(Polar, ContentSetsNoAngle) {
  const Tensor x = torch::tensor({-3.0, 4.0}, torch::kFloat64);
  EXPECT_GT(logit(*polar({0, 0}), x, 0, -x, 0), 0);
}

TEST(Polar, GoesThroughAttentionWithItsTwiceAsWideQueries) {
  const auto scheme = polar({0, 0});
  const Frame frame = frame_of({0, 1, 2});
  const Tensor x = torch::rand({1, 1, 3, 2}, torch::kFloat64);
  EXPECT_EQ(scheme->rotate(x, Side::kQuery, frame).size(3), 4);
  for (const auto path : {AttentionPath::kReference, AttentionPath::kBlocked}) {
    const AttentionPlan plan(*scheme, {}, frame, {.path = path, .dtype = torch::kFloat64, .block_rows = 2});
    EXPECT_EQ(plan({x, x, x, x[0]}).sizes(), x.sizes());
  }
}

TEST(Polar, StartsAtZeroOrAnywhereOnTheCircle) {
  const auto started = [](const char* rule) {
    const auto scheme = make_scheme("polar", {{"bias_init", rule}}, {.kv_heads = 64, .head_dim = 64});
    scheme->initialise(torch::make_generator<torch::CPUGeneratorImpl>(1));
    return scheme->parameters()[0].detach();
  };
  EXPECT_EQ(started("zero").abs().max().item<double>(), 0);
  EXPECT_NEAR(started("uniform").mean().item<double>(), -3.14159, 0.1);
  EXPECT_NEAR(started("uniform").min().item<double>(), -6.28319, 0.01);
  EXPECT_LE(started("uniform").max().item<double>(), 0);
}

}  // namespace
}  // namespace posenc
