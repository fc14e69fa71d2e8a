#include "schemes/fox.h"

#include <gmock/gmock.h>

#include "model/attention.h"
#include "schemes/scheme.h"

namespace posenc {
namespace {

using ::testing::DoubleNear;
using ::testing::Pointwise;

Frame frame_of(std::int64_t n) {
  const Positions positions{torch::arange(n, torch::kFloat64), 1};
  return {positions, positions, 0, n};
}

/// The bias [H, Q, K] the scheme adds, unseen keys 0.
Tensor bias_of(const Scheme& scheme, const Tensor& x, const Frame& frame, std::int64_t heads) {
  Content content;
  content.x = x;
  const Tensor zeros = torch::zeros({x.size(0), heads, frame.query_count(), frame.key_count()}, x.scalar_type());
  return scheme.score(zeros, content, frame).masked_fill(frame.unseen(), 0)[0].detach();
}

Tensor random_x(std::int64_t n, std::int64_t width, torch::ScalarType dtype = torch::kFloat64) {
  return torch::empty({1, n, width}, torch::kFloat64).normal_(0, 1, torch::make_generator<torch::CPUGeneratorImpl>(4)).to(dtype);
}

/// Gates of one constant logit.
std::shared_ptr<Scheme> constant_gates(double logit) {
  const auto scheme = make_scheme("fox", Json::object(), {.d_model = 3, .heads = 2});
  scheme->to(torch::kFloat64);
  const torch::NoGradGuard no_grad;
  scheme->named_parameters()["bias"].fill_(logit);
  return scheme;
}

// Lin et al. 2025: a gate of 1/2 costs ln 2 per token, ln f = −1/16 has the logit −ln(e^(1/16) − 1) = 2.741176.
TEST(Fox, ConstantGatesAreALinearBias) {
  const Tensor distances = frame_of(5).distances();
  EXPECT_TRUE(
      torch::allclose(bias_of(*constant_gates(0), random_x(5, 3), frame_of(5), 2)[1], -0.6931471805599453 * distances, 0, 1e-14));
  EXPECT_TRUE(
      torch::allclose(bias_of(*constant_gates(2.741176), random_x(5, 3), frame_of(5), 2)[0], -0.0625 * distances, 0, 1e-6));
}

// One gate per head from w_h·x + b_h. Logits ln 3, 0, −ln 3 are gates 3/4, 1/2, 1/4; the query's own counts, the key's does not.
TEST(Fox, AddsTheLogGatesBetweenKeyAndQuery) {
  const auto scheme = make_scheme("fox", Json::object(), {.d_model = 2, .heads = 2});
  scheme->to(torch::kFloat64);
  {
    const torch::NoGradGuard no_grad;
    scheme->named_parameters()["weight"].copy_(torch::tensor({{1.0, 0.0}, {0.0, 1.0}}, torch::kFloat64));
    scheme->named_parameters()["bias"].copy_(torch::tensor({0.0, 1.0986122886681098}, torch::kFloat64));
  }
  const double log3 = 1.0986122886681098;
  const Tensor x = torch::tensor({{{9.0, 9.0}, {log3, -log3}, {-log3, -2 * log3}}}, torch::kFloat64);
  const Tensor bias = bias_of(*scheme, x, frame_of(3), 2);
  const double a = -0.2876820724517809, b = -1.3862943611198906, half = -0.6931471805599453;  // ln 3/4, ln 1/4, ln 1/2
  const Tensor expected =
      torch::tensor({{{0.0, 0.0, 0.0}, {a, 0.0, 0.0}, {a + b, b, 0.0}}, {{0.0, 0.0, 0.0}, {half, 0.0, 0.0}, {half + b, b, 0.0}}},
                    torch::kFloat64);
  EXPECT_TRUE(torch::allclose(bias, expected, 0, 1e-14)) << bias;
}

TEST(Fox, ABlockOfQueriesGetsItsRowsOfTheWhole) {
  const auto scheme = make_scheme("fox", Json::object(), {.d_model = 3, .heads = 2});
  scheme->initialise(torch::make_generator<torch::CPUGeneratorImpl>(1));
  scheme->to(torch::kFloat64);
  const Tensor x = random_x(9, 3), whole = bias_of(*scheme, x, frame_of(9), 2);
  Frame block = frame_of(9);
  block.queries = block.queries.slice(4, 7);
  block.keys = block.keys.slice(0, 7);
  block.first_query = 4;
  EXPECT_TRUE(torch::equal(bias_of(*scheme, x.slice(1, 0, 7), block, 2), whole.slice(1, 4, 7).slice(2, 0, 7)));
}

// 65536 gates of 1/2 sum to −45426, where single precision steps by 0.004.
TEST(Fox, NearbyKeysFarFromTheStartKeepTheirPrecision) {
  const auto scheme = make_scheme("fox", Json::object(), {.d_model = 3, .heads = 2});
  Frame last = frame_of(65536);
  last.queries = last.queries.slice(65535, 65536);
  last.first_query = 65535;
  const Tensor bias = bias_of(*scheme, random_x(65536, 3, torch::kFloat32), last, 2);
  EXPECT_NEAR(bias[0][0][65534].item<double>(), -0.69314718, 1e-7);
  EXPECT_NEAR(bias[0][0][65532].item<double>(), -2.07944154, 2e-7);
}

TEST(Fox, StartsWithSmallWeightsAndTheGivenBias) {
  const auto scheme = make_scheme("fox", {{"bias_init", 5.0}}, {.d_model = 512, .heads = 128});
  scheme->initialise(torch::make_generator<torch::CPUGeneratorImpl>(1));
  EXPECT_NEAR(scheme->named_parameters()["weight"].std().item<double>(), 0.02, 4e-4);  // of 2^16 draws
  EXPECT_TRUE(torch::equal(scheme->named_parameters()["bias"].detach(), torch::full({128}, 5.0)));
}

TEST(FoxDecayTimes, AreLogSpaced) {
  EXPECT_THAT(fox_decay_times(4, 1, 1000), Pointwise(DoubleNear(1e-9), {1.0, 10.0, 100.0, 1000.0}));
  EXPECT_THAT(fox_decay_times(1, 16, 256), Pointwise(DoubleNear(0), {16.0}));
}

// The defaults at 8 heads are ALiBi's slopes 1/2 … 1/256.
TEST(Fox, FixedGatesAreAlibiWithTheSlopesOneOverTheTimes) {
  const auto fixed = make_scheme("fox", {{"gate", "fixed"}}, {.d_model = 3, .heads = 8});
  EXPECT_EQ(fixed->parameters().size(), 0u);
  const auto alibi = make_scheme("alibi", Json::object(), {.heads = 8});
  const Frame frame = frame_of(40);
  EXPECT_TRUE(torch::allclose(bias_of(*fixed, random_x(40, 3), frame, 8), alibi->bias(frame), 0, 1e-12));

  const auto timed = make_scheme("fox", {{"gate", "fixed"}, {"time_min", 4}, {"time_max", 64}}, {.d_model = 3, .heads = 3});
  const Tensor bias = bias_of(*timed, random_x(40, 3), frame, 3);
  EXPECT_NEAR(bias[0][39][35].item<double>(), -1, 1e-12);
  EXPECT_NEAR(bias[1][39][35].item<double>(), -0.25, 1e-12);
  EXPECT_NEAR(bias[2][39][35].item<double>(), -0.0625, 1e-12);
}

TEST(Fox, WithRopeItTurnsQueriesAndKeysAsRopeDoes) {
  const Tensor x = torch::rand({2, 3, 4, 8});
  const Frame frame{{torch::tensor({1.0, 5.0, 6.0, 8.5}, torch::kFloat64), 0},
                    {torch::tensor({0.0, 5.0, 6.0, 9.0}, torch::kFloat64), 0}};
  const ModelShape shape{.d_model = 3, .heads = 3, .head_dim = 8};
  const auto with = make_scheme("fox", {{"rope", true}, {"base", 500.0}}, shape),
             without = make_scheme("fox", Json::object(), shape);
  const auto rope = make_scheme("rope", {{"base", 500.0}}, shape);
  EXPECT_TRUE(with->rotates());
  EXPECT_FALSE(without->rotates());
  for (const Side side : {Side::kQuery, Side::kKey})
    EXPECT_TRUE(torch::equal(with->rotate(x, side, frame), rope->rotate(x, side, frame)));
  EXPECT_TRUE(torch::equal(without->rotate(x, Side::kQuery, frame), x));
}

// A window hides keys but forgets no faster: all tokens between count.
TEST(Fox, AWindowLeavesTheBiasAsItIs) {
  const auto scheme = constant_gates(0);
  Frame frame = frame_of(6);
  const Tensor all = bias_of(*scheme, random_x(6, 3), frame, 2);
  frame.visible = {.window = 2, .keep_first = 1};
  const Tensor windowed = bias_of(*scheme, random_x(6, 3), frame, 2);
  EXPECT_TRUE(torch::equal(windowed, all.masked_fill(frame.unseen(), 0)));
  EXPECT_NEAR(windowed[0][5][0].item<double>(), -5 * 0.6931471805599453, 1e-14);
}

TEST(Fox, GradientsStayFiniteWhenGatesSaturate) {
  const auto scheme = make_scheme("fox", Json::object(), {.d_model = 3, .heads = 2});
  for (const double logit : {-1e4, 1e4}) {
    {
      const torch::NoGradGuard no_grad;
      scheme->named_parameters()["bias"].fill_(logit);
    }
    scheme->zero_grad();
    const Tensor x = random_x(8, 3, torch::kFloat32);
    const Tensor q = torch::ones({1, 2, 8, 4});
    const AttentionPlan plan(*scheme, {.content_dependent = true}, frame_of(8), {.path = AttentionPath::kReference, .heads = 2});
    plan({q, q, torch::rand({1, 2, 8, 4}), x}).square().sum().backward();
    for (const Tensor& p : scheme->parameters()) EXPECT_TRUE(p.grad().isfinite().all().item<bool>()) << logit;
  }
}

}  // namespace
}  // namespace posenc
