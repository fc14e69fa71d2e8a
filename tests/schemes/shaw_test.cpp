#include <gtest/gtest.h>

#include "schemes/scheme.h"

namespace posenc {
namespace {

/// All tokens so far, at these positions.
Frame frame_at(const std::vector<double>& positions) {
  const Positions all{torch::tensor(positions, torch::kFloat64), 0};
  return {all, all, 0, 4};
}

/// One head of width 4; the vector of distance d on the keys' side is 2·e_d, so that q·a_d/√4 is q's number d.
std::shared_ptr<Scheme> counted(const std::string& form) {
  const auto scheme =
      make_scheme("shaw", {{"max_distance", 2}, {"form", form}, {"values", false}}, {.d_model = 4, .heads = 1, .head_dim = 4});
  const torch::NoGradGuard no_grad;
  scheme->named_parameters()["keys"].copy_(2 * torch::eye(3, 4));
  return scheme;
}

/// q_i = (1, 2, 3, 0) + 10·i and k_j = 100·(j + 1)·(1, 2, 3, 0), for four tokens.
Content numbered_content() {
  const Tensor one = torch::tensor({1.0, 2.0, 3.0, 0.0}).unsqueeze(0), i = torch::arange(4.0).unsqueeze(1);
  return {(one + 10 * i).view({1, 1, 4, 4}), (100 * (i + 1) * one).view({1, 1, 4, 4}), {}, {}};
}

Tensor score(const Scheme& scheme, const Content& content, const Frame& frame) {
  return scheme.score(torch::zeros({1, 1, frame.query_count(), frame.key_count()}), content, frame)[0][0].detach().tril();
}

TEST(Shaw, LogitsGainTheQuerysProductWithTheVectorOfTheClippedDistance) {
  const Tensor s = score(*counted("relative_key"), numbered_content(), frame_at({0, 1, 2, 3}));
  EXPECT_TRUE(torch::equal(s, torch::tensor({{1.0, 0.0, 0.0, 0.0},  //
                                             {12.0, 11.0, 0.0, 0.0},
                                             {23.0, 22.0, 21.0, 0.0},
                                             {33.0, 33.0, 32.0, 31.0}})));
}

// The second term belongs to key j and is read along the keys: k_j's number d, not the key's of another row.
TEST(Shaw, BertsFormAddsTheKeysProductWithTheSameVector) {
  const Tensor s = score(*counted("relative_key_query"), numbered_content(), frame_at({0, 1, 2, 3}));
  EXPECT_TRUE(torch::equal(
      s, torch::tensor(
             {{101.0, 0.0, 0.0, 0.0}, {212.0, 211.0, 0.0, 0.0}, {323.0, 422.0, 321.0, 0.0}, {333.0, 633.0, 632.0, 431.0}})));
}

TEST(Shaw, DistanceGoesByPositionAndNotByIndex) {
  const Tensor s = score(*counted("relative_key"), numbered_content(), frame_at({0, 7, 8, 8.5}));
  EXPECT_TRUE(torch::equal(s, torch::tensor({{1.0, 0.0, 0.0, 0.0},  //
                                             {13.0, 11.0, 0.0, 0.0},
                                             {23.0, 22.0, 21.0, 0.0},
                                             {33.0, 32.0, 31.0, 31.0}})));  // whole distances, rounded down
}

TEST(Shaw, WithoutContentTheLogitsStayAsTheyAre) {
  const Content nothing{torch::zeros({1, 1, 4, 4}), torch::zeros({1, 1, 4, 4}), {}, {}};
  for (const char* form : {"relative_key", "relative_key_query"})
    EXPECT_TRUE(torch::equal(score(*counted(form), nothing, frame_at({0, 1, 2, 3})), torch::zeros({4, 4})));
}

TEST(Shaw, OutputsGainTheVectorsOfTheDistancesByTheirWeights) {
  const auto scheme = make_scheme("shaw", {{"max_distance", 2}}, {.d_model = 2, .heads = 1, .head_dim = 2});
  const torch::NoGradGuard no_grad;
  scheme->named_parameters()["values"].copy_(torch::tensor({{1.0, 0.0}, {0.0, 1.0}, {10.0, 10.0}}));
  const Tensor weights = torch::tensor({{1.0, 0.0, 0.0, 0.0},  //
                                        {0.5, 0.5, 0.0, 0.0},
                                        {0.25, 0.25, 0.5, 0.0},
                                        {0.125, 0.25, 0.125, 0.5}});
  const Tensor y = scheme->mix(torch::ones({1, 1, 4, 2}), weights.view({1, 1, 4, 4}), frame_at({0, 1, 2, 3}))[0][0];
  // Weights of the distances 0, 1, 2 and more: (1), (1/2, 1/2), (1/2, 1/4, 1/4), (1/2, 1/8, 3/8).
  EXPECT_TRUE(torch::equal(y, torch::tensor({{2.0, 1.0}, {1.5, 1.5}, {4.0, 3.75}, {5.25, 4.875}})));
}

TEST(Shaw, WithoutValuesTheyStayAsTheyAre) {
  const auto scheme = counted("relative_key");
  EXPECT_EQ(scheme->parameters().size(), 1u);
  const Tensor y = torch::ones({1, 1, 4, 4});
  EXPECT_TRUE(torch::equal(scheme->mix(y, torch::ones({1, 1, 4, 4}), frame_at({0, 1, 2, 3})), y));
}

TEST(Shaw, HasOneRowPerDistanceForAllHeads) {
  const auto scheme = make_scheme("shaw", Json::object(), {.d_model = 12, .heads = 3, .head_dim = 4});
  for (const char* table : {"keys", "values"})
    EXPECT_EQ(scheme->named_parameters()[table].sizes(), torch::IntArrayRef({17, 4})) << table;
}

TEST(Shaw, StartsFromANormalDistributionOfDeviationTwoHundredths) {
  const auto scheme = make_scheme("shaw", {{"max_distance", 4095}}, {.head_dim = 64});
  scheme->initialise(torch::make_generator<torch::CPUGeneratorImpl>(1));
  for (const char* table : {"keys", "values"})
    EXPECT_NEAR(scheme->named_parameters()[table].std().item<double>(), 0.02, 2e-4) << table;  // of 2^18 draws
}

}  // namespace
}  // namespace posenc
