#include <gtest/gtest.h>

#include <limits>

#include "schemes/scheme.h"

namespace posenc {
namespace {

Tensor doubles(std::vector<double> values) { return torch::tensor(values, torch::kFloat64); }

/// Distance d of head h has the value 100·h + d².
std::shared_ptr<Scheme> squares(std::int64_t max_distance, const char* far) {
  const auto scheme = make_scheme("rel_scalar", {{"max_distance", max_distance}, {"far", far}}, {.heads = 2});
  scheme->to(torch::kFloat64);
  const torch::NoGradGuard no_grad;
  const Tensor d = torch::arange(max_distance + 1, torch::kFloat64);
  scheme->named_parameters()["table"].copy_(d * d + doubles({0, 100}).unsqueeze(1));
  return scheme;
}

Tensor bias(const Scheme& scheme, std::vector<double> distances) { return scheme.distance_bias(doubles(distances)).detach(); }

TEST(RelScalar, ReadsTheDistanceForEachHeadAndClipsIt) {
  EXPECT_TRUE(torch::equal(bias(*squares(4, "clamp"), {0, 1, 3, 4, 5, 1e9}),
                           torch::stack({doubles({0, 1, 9, 16, 16, 16}), doubles({100, 101, 109, 116, 116, 116})})));
}

TEST(RelScalar, IsLinearBetweenWholeDistances) {
  EXPECT_TRUE(torch::allclose(bias(*squares(4, "clamp"), {0.5, 1.25, 3.5, 4.5})[0], doubles({0.5, 1.75, 12.5, 16}), 0, 1e-14));
}

TEST(RelScalar, MayHideWhatIsFarther) {
  const double hidden = -std::numeric_limits<double>::infinity();
  // The fourth distance is 4 but for rounding, as positions times a factor come out.
  EXPECT_TRUE(torch::equal(bias(*squares(4, "mask"), {0, 3, 4, 4.000000000000001, 4.01, 5, 1e9})[1],
                           doubles({100, 109, 116, 116, hidden, hidden, hidden})));
}

TEST(RelScalar, AHiddenKeyHasNoGradientAndSpoilsNone) {
  const auto scheme = squares(2, "mask");
  torch::softmax(scheme->distance_bias(doubles({0, 1, 2, 3})), 1).select(1, 0).sum().backward();
  const Tensor grad = scheme->parameters()[0].grad();
  EXPECT_TRUE(grad.isfinite().all().item<bool>());
  EXPECT_GT(grad.abs().min().item<double>(), 0);
}

TEST(RelScalar, StartsAsNoPositionsWithDistancesUpToHalfTheTrainingLength) {
  const auto scheme = make_scheme("rel_scalar", Json::object(), {.heads = 3, .train_length = 128});
  const Tensor table = scheme->named_parameters()["table"];
  EXPECT_EQ(table.sizes(), torch::IntArrayRef({3, 65}));
  scheme->initialise(torch::make_generator<torch::CPUGeneratorImpl>(1));
  EXPECT_EQ(table.abs().max().item<double>(), 0);
  EXPECT_EQ(make_scheme("rel_scalar", Json::object(), {.train_length = 1})->parameters()[0].size(1), 2);
}

TEST(RelScalar, WithValuesThatFallLinearlyItIsAlibi) {
  const auto alibi = make_scheme("alibi", Json::object(), {.heads = 4});
  const auto scheme = make_scheme("rel_scalar", {{"max_distance", 8}}, {.heads = 4});
  {
    const torch::NoGradGuard no_grad;
    const Tensor slopes = torch::tensor({0.25, 0.0625, 0.015625, 0.00390625}).unsqueeze(1);
    scheme->named_parameters()["table"].copy_(-slopes * torch::arange(9));
  }
  const std::vector<double> distances = {0, 1, 2, 7, 8, 0.5, 6.25};
  EXPECT_TRUE(torch::equal(bias(*scheme, distances).to(torch::kFloat64), bias(*alibi, distances)));
  EXPECT_FALSE(torch::equal(bias(*scheme, {9}).to(torch::kFloat64), bias(*alibi, {9})));  // clipped
}

}  // namespace
}  // namespace posenc
