#include "schemes/t5.h"

#include <gtest/gtest.h>

#include "schemes/scheme.h"

namespace posenc {
namespace {

// Fault 12. Raffel et al. 2020: 32 buckets, maximum distance 128; values of mesh_tensorflow's rule.
TEST(T5Bucket, OfACausalDistance) {
  const auto bucket = [](std::int64_t distance) { return t5_bucket(-distance, 32, 128, false); };
  for (std::int64_t d = 0; d <= 15; ++d) EXPECT_EQ(bucket(d), d);
  const std::pair<std::int64_t, std::int64_t> expected[] = {
      {16, 16}, {18, 16}, {19, 17}, {20, 17}, {21, 18}, {24, 19}, {27, 20},  {31, 21},  {35, 22},  {40, 23},  {46, 24},  {52, 25},
      {59, 26}, {64, 26}, {67, 27}, {77, 28}, {87, 29}, {99, 30}, {112, 30}, {113, 31}, {127, 31}, {128, 31}, {1000, 31}};
  for (const auto& [d, b] : expected) EXPECT_EQ(bucket(d), b) << d;
  EXPECT_EQ(t5_bucket(5, 32, 128, false), 0);  // a future key, never used
}

TEST(T5Bucket, OfBothDirectionsHasHalfTheBucketsForEach) {
  const std::pair<std::int64_t, std::int64_t> expected[] = {{-1, 1}, {-7, 7}, {-8, 8}, {-16, 10}, {-64, 14},   {-128, 15},
                                                            {0, 0},  {1, 17}, {8, 24}, {128, 31}, {-1000, 15}, {1000, 31}};
  for (const auto& [relative, b] : expected) EXPECT_EQ(t5_bucket(relative, 32, 128, true), b) << relative;
}

/// Bucket b of head h holds 100·h + b.
std::shared_ptr<Scheme> counted(double scale) {
  const auto scheme = make_scheme("t5", {{"buckets", 32}, {"max_distance", 128}, {"share_layers", true}, {"scale", scale}},
                                  {.d_model = 16, .heads = 2});
  const torch::NoGradGuard no_grad;
  scheme->named_parameters()["table"].copy_(torch::arange(32.0).unsqueeze(1) + torch::tensor({0.0, 100.0}));
  return scheme;
}

TEST(T5, ReadsTheBucketOfTheDistanceForEachHead) {
  const Tensor distances = torch::tensor({0.0, 3.0, 64.0, 113.0, 128.0, 1e9}, torch::kFloat64);
  const Tensor bias = counted(1)->distance_bias(distances).detach();
  EXPECT_TRUE(
      torch::equal(bias, torch::tensor({{0.0, 3.0, 26.0, 31.0, 31.0, 31.0}, {100.0, 103.0, 126.0, 131.0, 131.0, 131.0}})));
  EXPECT_TRUE(torch::equal(counted(4)->distance_bias(distances).detach(), bias * 4));
}

TEST(T5, StartsFromANormalDistributionOfDeviationOneOverRootWidth) {
  const auto scheme = make_scheme("t5", {{"buckets", 4096}, {"max_distance", 8192}, {"share_layers", true}, {"scale", 1.0}},
                                  {.d_model = 16, .heads = 64});
  scheme->initialise(torch::make_generator<torch::CPUGeneratorImpl>(1));
  EXPECT_NEAR(scheme->named_parameters()["table"].std().item<double>(), 0.25, 2.5e-3);  // of 2^18 draws
}

}  // namespace
}  // namespace posenc
