#include "schemes/alibi.h"

#include <gmock/gmock.h>

#include "schemes/scheme.h"

namespace posenc {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pointwise;

/// Press et al. 2022 give the slopes in decimals; eight digits of them.
void expect_slopes(const std::vector<double>& slopes, const std::vector<double>& expected) {
  EXPECT_THAT(slopes, Pointwise(DoubleNear(5e-9), expected));
}

TEST(AlibiSlopes, ArePowersOfTwoForAPowerOfTwoHeads) {
  EXPECT_THAT(alibi_slopes(1), ElementsAre(0.00390625));
  EXPECT_THAT(alibi_slopes(4), ElementsAre(0.25, 0.0625, 0.015625, 0.00390625));
  EXPECT_THAT(alibi_slopes(8), ElementsAre(0.5, 0.25, 0.125, 0.0625, 0.03125, 0.015625, 0.0078125, 0.00390625));
  const auto sixteen = alibi_slopes(16);
  ASSERT_EQ(sixteen.size(), 16u);
  expect_slopes({sixteen.begin(), sixteen.begin() + 4}, {0.70710678, 0.5, 0.35355339, 0.25});
}

// Fault 1: the jump after the largest power of two is the authors' rule; sorted, or cut from 16 heads, it would be another model.
TEST(AlibiSlopes, OtherHeadCountsAppendEverySecondSlopeOfTheNextPower) {
  EXPECT_THAT(alibi_slopes(6), ElementsAre(0.25, 0.0625, 0.015625, 0.00390625, 0.5, 0.125));
  expect_slopes(alibi_slopes(12), {0.5, 0.25, 0.125, 0.0625, 0.03125, 0.015625, 0.0078125, 0.00390625, 0.70710678, 0.35355339,
                                   0.17677670, 0.08838835});
}

TEST(AlibiSlopes, GeometricOnesFitAnyHeadCount) {
  const auto twelve = alibi_slopes(12, 8, /*geometric=*/true);  // 2^(-8h/12)
  ASSERT_EQ(twelve.size(), 12u);
  expect_slopes({twelve[0], twelve[1], twelve[2], twelve[11]}, {0.62996052, 0.39685026, 0.25, 0.00390625});
  EXPECT_THAT(alibi_slopes(4, 4), ElementsAre(0.5, 0.25, 0.125, 0.0625));
}

TEST(Alibi, FallsLinearlyWithDistance) {
  const auto alibi = make_scheme("alibi", {{"slopes", "paper"}, {"bias_max", 8.0}}, {.heads = 8, .kv_heads = 2});
  const Tensor bias = alibi->distance_bias(torch::tensor({0.0, 1.0, 2.0, 0.5, 1e6}, torch::kFloat64));
  EXPECT_TRUE(torch::equal(bias[0], torch::tensor({0.0, -0.5, -1.0, -0.25, -5e5}, torch::kFloat64)));
  EXPECT_TRUE(torch::equal(bias[7], torch::tensor({0.0, -0.00390625, -0.0078125, -0.001953125, -3906.25}, torch::kFloat64)));
  EXPECT_EQ(alibi->parameters().size(), 0u);
}

TEST(Alibi, TakesItsSlopesFromTheParameters) {
  const auto alibi = make_scheme("alibi", {{"slopes", "geometric"}, {"bias_max", 6.0}}, {.heads = 3});  // 2^-2, 2^-4, 2^-6
  const Tensor bias = alibi->distance_bias(torch::tensor({1.0}, torch::kFloat64));
  EXPECT_TRUE(torch::equal(bias, torch::tensor({-0.25, -0.0625, -0.015625}, torch::kFloat64).unsqueeze(1)));
}

/// The bias one token back, which is −slope, for each head.
Tensor one_back(const Scheme& alibi) { return alibi.distance_bias(torch::ones({1}, torch::kFloat64)).detach().flatten(); }

TEST(Alibi, BiasesTheFirstHeadsOnlyAndAsIfTheyWereAll) {
  const auto alibi = make_scheme("alibi", {{"biased_heads", 4}}, {.heads = 6});
  EXPECT_TRUE(torch::equal(one_back(*alibi), torch::tensor({-0.25, -0.0625, -0.015625, -0.00390625, 0.0, 0.0}, torch::kFloat64)));
  const Tensor far = alibi->distance_bias(torch::tensor({1e6}, torch::kFloat64)).flatten();
  EXPECT_EQ(far[3].item<double>(), -3906.25);
  EXPECT_EQ(far[4].item<double>(), 0);
}

TEST(Alibi, RefusesToBiasMoreHeadsThanThereAre) {
  const SchemeInfo& info = *find_registered(schemes(), "alibi");
  const auto problem = [&](std::int64_t biased) {
    const Json parameters = {{"slopes", "paper"}, {"bias_max", 8.0}, {"learned", false}, {"biased_heads", biased}};
    std::vector<Problem> problems;
    const Document document{parameters, "test", {}};
    info.check(parameters, {.heads = 6}, Reader(document, problems));
    return problems.empty() ? "" : problems[0].pointer + ": " + problems[0].rule;
  };
  EXPECT_EQ(problem(6), "");
  EXPECT_THAT(problem(7), HasSubstr("/biased_heads: 7 is more than the 6 heads"));
}

TEST(Alibi, LearnedSlopesStartFromTheFixedOnes) {
  const auto alibi = make_scheme("alibi", {{"learned", true}, {"biased_heads", 2}}, {.heads = 3});  // 2^-4, 2^-8
  ASSERT_EQ(alibi->parameters().size(), 1u);
  EXPECT_EQ(alibi->parameters()[0].sizes(), torch::IntArrayRef({2}));
  alibi->initialise(torch::make_generator<torch::CPUGeneratorImpl>(1));
  // Their logarithms are kept in single precision.
  EXPECT_TRUE(torch::allclose(one_back(*alibi), torch::tensor({-0.0625, -0.00390625, 0.0}, torch::kFloat64), 1e-6, 0));
}

TEST(Alibi, ALearnedSlopeIsPositiveWhateverItsParameterIs) {
  const auto alibi = make_scheme("alibi", {{"learned", true}}, {.heads = 3});
  {
    const torch::NoGradGuard no_grad;
    alibi->named_parameters()["log_slopes"].copy_(torch::tensor({-30.0, 0.0, 0.6931471805599453}));
  }
  EXPECT_TRUE(torch::allclose(one_back(*alibi), torch::tensor({-9.357622968840175e-14, -1.0, -2.0}, torch::kFloat64), 1e-6, 0));
  // d/dx of −e^x·d, summed over d = 0 … 3, is −6·e^x.
  alibi->distance_bias(torch::arange(4, torch::kFloat64)).sum().backward();
  const Tensor grad = alibi->parameters()[0].grad();
  EXPECT_TRUE(torch::allclose(grad, torch::tensor({-5.6145738e-13, -6.0, -12.0}).to(grad.scalar_type()), 1e-6, 0));
}

}  // namespace
}  // namespace posenc
