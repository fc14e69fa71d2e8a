#include "core/statistics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace posenc {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// Fault 46: exp(19/8).
TEST(Statistics, WeightsWindowsByTheirScoredTargets) { EXPECT_NEAR(*perplexity(mean_nll({{10, 5}, {9, 3}})), 10.7510, 1e-4); }

// Fault 47: 100 targets at 1.0 and 10 at 3.0; 7.389 and 11.402 are the usual wrong answers.
TEST(Statistics, IsNoAverageOfAverages) { EXPECT_NEAR(*perplexity(mean_nll({{100, 100}, {30, 10}})), 3.2602966, 1e-7); }

TEST(Statistics, NoTargetsHaveNoMean) {
  EXPECT_TRUE(std::isnan(mean_nll({})));
  EXPECT_TRUE(std::isnan(mean_nll({{0, 0}})));
}

// Fault 50.
TEST(Statistics, PerplexityOverflowsToNothing) {
  EXPECT_NEAR(*perplexity(100) / 2.6881e43, 1, 1e-4);
  EXPECT_EQ(perplexity(800), std::nullopt);
  EXPECT_EQ(perplexity(kNaN), std::nullopt);
  EXPECT_EQ(perplexity(std::numeric_limits<double>::infinity()), std::nullopt);
  EXPECT_EQ(perplexity(-std::numeric_limits<double>::infinity()), std::nullopt);
}

// Half the windows at 1, half at 3, n = 100: the standard error of the mean is √(1/100) = 0.1; 1000 draws know it to 2 %.
TEST(Statistics, BootstrapMatchesTheFormulaForEqualWindows) {
  std::vector<WindowLoss> windows;
  for (int i = 0; i < 100; ++i) windows.push_back({i % 2 ? 10.0 : 30.0, 10});
  EXPECT_NEAR(*bootstrap_stderr(windows), 0.1, 0.01);
  EXPECT_EQ(bootstrap_stderr(windows), bootstrap_stderr(windows));
  EXPECT_NE(bootstrap_stderr(windows, 1000, 1), bootstrap_stderr(windows, 1000, 2));
}

TEST(Statistics, BootstrapResamplesWindowsWithTheirTargets) {
  // Every window has the same mean, so the ratio never moves although the sums do.
  EXPECT_NEAR(*bootstrap_stderr({{2, 1}, {20, 10}, {200, 100}}), 0, 1e-12);
}

TEST(Statistics, BootstrapNeedsTwoScoredWindows) {
  EXPECT_EQ(bootstrap_stderr({}), std::nullopt);
  EXPECT_EQ(bootstrap_stderr({{3, 2}}), std::nullopt);
  EXPECT_EQ(bootstrap_stderr({{3, 2}, {0, 0}}), std::nullopt);
  EXPECT_EQ(bootstrap_stderr({{kNaN, 2}, {1, 1}}), std::nullopt);
}

/// `count` samples of mean 0 whose standard error is 1, so that the half width is the t quantile itself.
std::vector<double> unit_samples(int count) {
  std::vector<double> samples(static_cast<std::size_t>(count), 0.0);
  samples[0] = std::sqrt(count * (count - 1) / 2.0);
  samples[1] = -samples[0];
  return samples;
}

// Two-sided quantiles from the usual tables (e.g. NIST/SEMATECH e-Handbook 1.3.6.7.2, more digits from R's qt).
TEST(Statistics, UsesStudentsQuantiles) {
  EXPECT_NEAR(*t_interval(unit_samples(2)).half_width, 12.706205, 1e-6);    // df 1
  EXPECT_NEAR(*t_interval(unit_samples(3)).half_width, 4.302653, 1e-6);     // df 2
  EXPECT_NEAR(*t_interval(unit_samples(4)).half_width, 3.182446, 1e-6);     // df 3
  EXPECT_NEAR(*t_interval(unit_samples(5)).half_width, 2.776445, 1e-6);     // df 4
  EXPECT_NEAR(*t_interval(unit_samples(10)).half_width, 2.262157, 1e-6);    // df 9
  EXPECT_NEAR(*t_interval(unit_samples(31)).half_width, 2.042272, 1e-6);    // df 30
  EXPECT_NEAR(*t_interval(unit_samples(1001)).half_width, 1.962339, 1e-6);  // df 1000
  EXPECT_NEAR(*t_interval(unit_samples(5), 0.99).half_width, 4.604095, 1e-6);
}

// 1..5: mean 3, s = √2.5, half width 2.776445 · √(2.5/5) = 1.963243.
TEST(Statistics, IntervalOfFiveSeeds) {
  const MeanInterval interval = t_interval({1, 2, 3, 4, 5});
  EXPECT_EQ(interval.n, 5);
  EXPECT_NEAR(interval.mean, 3, 1e-12);
  EXPECT_NEAR(*interval.half_width, 1.963243, 1e-6);
}

TEST(Statistics, FewerThanTwoSamplesHaveNoInterval) {
  EXPECT_EQ(t_interval({4}).mean, 4);
  EXPECT_EQ(t_interval({4}).half_width, std::nullopt);
  EXPECT_TRUE(std::isnan(t_interval({}).mean));
  EXPECT_EQ(t_interval({}).half_width, std::nullopt);
  EXPECT_EQ(t_interval({1, kNaN}).half_width, std::nullopt);
  EXPECT_EQ(*t_interval({2, 2, 2}).half_width, 0);
}

// (p + z²/2n ± z·√(p(1−p)/n + z²/4n²))/(1 + z²/n), worked out apart.
TEST(WilsonInterval, FollowsItsFormula) {
  const Interval half = wilson_interval(0.5, 10);
  EXPECT_NEAR(half.low, 0.2365931, 1e-6);
  EXPECT_NEAR(half.high, 0.7634069, 1e-6);
  const Interval most = wilson_interval(0.9, 100);
  EXPECT_NEAR(most.low, 0.8256343, 1e-6);
  EXPECT_NEAR(most.high, 0.9447708, 1e-6);
}

TEST(WilsonInterval, StaysWithinZeroAndOneAndIsNeverEmpty) {
  EXPECT_EQ(wilson_interval(0, 512).low, 0);
  EXPECT_NEAR(wilson_interval(0, 512).high, 0.0074470, 1e-6);  // z²/(n + z²)
  EXPECT_EQ(wilson_interval(1, 512).high, 1);
  EXPECT_NEAR(wilson_interval(1, 512).low, 0.9925530, 1e-6);
}

}  // namespace
}  // namespace posenc
