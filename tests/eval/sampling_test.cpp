#include "eval/sampling.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "core/error.h"

namespace posenc {
namespace {

/// Shares of 20000 draws.
std::map<std::int32_t, double> shares(const std::vector<float>& logits, const Sampling& sampling) {
  Rng rng(3);
  std::map<std::int32_t, double> share;
  for (int i = 0; i < 20000; ++i) share[sample_token(logits, sampling, rng)] += 1.0 / 20000;
  return share;
}

const std::vector<float> kHalves = {std::log(2.0f), std::log(8.0f), std::log(1.0f), std::log(5.0f)};  // 2, 8, 1, 5 of 16

TEST(Sampling, WithoutTemperatureTheLikeliestTokenIsTakenAndTheFirstOfEquals) {
  EXPECT_EQ(shares(kHalves, {}), (std::map<std::int32_t, double>{{1, shares(kHalves, {})[1]}}));
  Rng rng(1);
  EXPECT_EQ(sample_token({1, 3, 3, 2}, {}, rng), 1);
}

// 20000 draws of a share of a half are off by 0.0035; four of those.
TEST(Sampling, AtTemperatureOneTokensComeByTheirProbability) {
  const auto share = shares(kHalves, {.temperature = 1});
  for (const auto& [token, want] : std::map<std::int32_t, double>{{0, 2.0 / 16}, {1, 8.0 / 16}, {2, 1.0 / 16}, {3, 5.0 / 16}})
    EXPECT_NEAR(share.at(token), want, 0.014) << token;
}

// Half the temperature squares the odds: 4, 64, 1, 25 of 94.
TEST(Sampling, ALowerTemperatureSharpens) {
  const auto share = shares(kHalves, {.temperature = 0.5});
  EXPECT_NEAR(share.at(1), 64.0 / 94, 0.014);
  EXPECT_NEAR(share.at(3), 25.0 / 94, 0.014);
}

TEST(Sampling, TopKKeepsTheLikeliest) {
  const auto share = shares(kHalves, {.temperature = 1, .top_k = 2});
  EXPECT_EQ(share.size(), 2u);
  EXPECT_NEAR(share.at(1), 8.0 / 13, 0.014);
  EXPECT_NEAR(share.at(3), 5.0 / 13, 0.014);
  EXPECT_EQ(shares(kHalves, {.temperature = 1, .top_k = 100}).size(), 4u);
}

// 8/16 and 5/16 reach 0.8; 8/16 alone reaches one half.
TEST(Sampling, TopPKeepsTheFewestThatReachIt) {
  EXPECT_EQ(shares(kHalves, {.temperature = 1, .top_p = 0.8}).size(), 2u);
  EXPECT_EQ(shares(kHalves, {.temperature = 1, .top_p = 0.82}).size(), 3u);
  EXPECT_EQ(shares(kHalves, {.temperature = 1, .top_p = 0.49}).size(), 1u);
  EXPECT_EQ(shares(kHalves, {.temperature = 1, .top_p = 1}).size(), 4u);
}

TEST(Sampling, LogitsThatAreNoNumbersAreAnError) {
  Rng rng(1);
  EXPECT_THROW(sample_token({1, std::nanf("")}, {}, rng), DataError);
  EXPECT_EQ(sample_token({-INFINITY, 0}, {.temperature = 1}, rng), 1);
}

}  // namespace
}  // namespace posenc
