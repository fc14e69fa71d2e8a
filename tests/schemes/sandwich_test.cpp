#include <gtest/gtest.h>

#include "schemes/scheme.h"

namespace posenc {
namespace {

Tensor doubles(std::vector<double> values) { return torch::tensor(values, torch::kFloat64); }

Tensor bias(const Json& parameters, std::int64_t heads, std::vector<double> distances) {
  return make_scheme("sandwich", parameters, {.heads = heads})->distance_bias(doubles(distances));
}

// The last of eight heads divides by 8: 8·b + 64 is the sum of 64 cosines, of which four decimals are given.
TEST(Sandwich, IsASumOfCosinesOfTheDistance) {
  const std::vector<double> distances = {0, 1, 2, 4, 16, 64, 128, 512};
  const auto sum = [&](std::int64_t index_base) { return bias({{"index_base", index_base}}, 8, distances)[7] * 8 + 64; };
  EXPECT_TRUE(torch::allclose(sum(1), doubles({64, 62.5534, 58.7980, 50.2397, 41.6593, 31.1282, 22.9917, 16.0387}), 0, 5.1e-5));
  EXPECT_TRUE(torch::allclose(sum(0), doubles({64, 62.0937, 57.3819, 48.5860, 39.7017, 30.5201, 21.2988, 14.0432}), 0, 5.1e-5));
  EXPECT_TRUE(torch::equal(bias(Json::object(), 8, distances), bias({{"index_base", 1}}, 8, distances)));
}

TEST(Sandwich, DividesByEightTimesTheHeadsShare) {
  const Tensor b = bias(Json::object(), 8, {16}).flatten();
  EXPECT_TRUE(torch::allclose(torch::stack({b[0], b[1], b[7]}), doubles({-22.3407, -11.1703, -2.7926}), 0, 5.1e-5));
  EXPECT_TRUE(torch::allclose(bias(Json::object(), 2, {16}).flatten(), doubles({-5.585175, -2.7925875}), 0, 2e-5));
}

TEST(Sandwich, TakesWidthAndBaseFromTheParameters) {
  // d̄ = 2: one cosine of wavelength base^(2/2) = 10; d̄ = 4: two, of 10^(2/4) and 10.
  EXPECT_NEAR(bias({{"d_bar", 2}, {"base", 10.0}}, 1, {5}).item<double>(), (0.8775825618903728 - 1) / 8, 1e-15);  // cos 0.5
  EXPECT_NEAR(bias({{"d_bar", 4}, {"base", 100.0}}, 1, {5}).item<double>(), (0.8775825618903728 + 0.9987502603949663 - 2) / 8,
              1e-15);  // cos 0.5 + cos 0.05
}

TEST(Sandwich, HasNothingToLearn) { EXPECT_EQ(make_scheme("sandwich", Json::object(), {.heads = 2})->parameters().size(), 0u); }

}  // namespace
}  // namespace posenc
