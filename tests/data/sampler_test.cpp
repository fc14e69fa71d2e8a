#include "data/sampler.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <set>

namespace posenc {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

SamplerConfig sampler(const Json& json, std::int64_t train_length = 16) {
  std::vector<Problem> problems;
  const Document document{json, "test", {}};
  SamplerConfig config;
  EXPECT_TRUE(Codec<SamplerConfig>::read(json, config, {}, Reader(document, problems)));
  config.resolve(train_length);
  return config;
}

std::vector<double> training(const SamplerConfig& config, std::int64_t length, std::uint64_t seed) {
  return sample_positions(config, length, SamplerUse::kTraining, seed);
}

std::vector<double> evaluation(const SamplerConfig& config, std::int64_t length, std::uint64_t seed = 1) {
  return sample_positions(config, length, SamplerUse::kEvaluation, seed);
}

TEST(Sampler, ArangeCountsFromZero) {
  EXPECT_THAT(training(sampler("arange"), 4, 9), ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(position_limit(sampler("arange"), 16), 16);
}

// SHAPE's code: training starts anywhere below K, inference at K.
TEST(Sampler, OffsetStartsBelowMaxInTrainingAndAtItInEvaluation) {
  const SamplerConfig config = sampler({{"method", "offset"}, {"max", 5}});
  std::set<double> starts;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const auto positions = training(config, 3, seed);
    EXPECT_EQ(positions[1], positions[0] + 1);
    EXPECT_EQ(positions[2], positions[0] + 2);
    starts.insert(positions[0]);
  }
  EXPECT_THAT(starts, ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(evaluation(config, 3), ElementsAre(5, 6, 7));
  EXPECT_EQ(position_limit(config, 16), 21);
  EXPECT_EQ(*sampler("offset").max, 500);
}

TEST(Sampler, RandomizedPositionsAreDistinctAscendingAndBelowMax) {
  const SamplerConfig config = sampler({{"method", "randomized"}, {"max", 20}});
  std::vector<int> drawn(20);
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    const auto positions = training(config, 5, seed);
    ASSERT_EQ(positions.size(), 5u);
    for (std::size_t i = 1; i < 5; ++i) ASSERT_LT(positions[i - 1], positions[i]);
    ASSERT_GE(positions.front(), 0);
    ASSERT_LT(positions.back(), 20);
    for (const double p : positions) ++drawn[static_cast<std::size_t>(p)];
  }
  // Every position is in a draw of 5 of 20 with probability 1/4: 500 of 2000, standard deviation 19.4.
  EXPECT_GT(*std::min_element(drawn.begin(), drawn.end()), 400);
  EXPECT_LT(*std::max_element(drawn.begin(), drawn.end()), 600);
  EXPECT_EQ(evaluation_draws(config), 4);
  EXPECT_EQ(*sampler("randomized").max, 2048);  // DeepMind's noise_max_length
}

TEST(Sampler, RandomizedOverAsManyPositionsAsTokensIsArange) {
  EXPECT_THAT(training(sampler({{"method", "randomized"}, {"max", 4}}), 4, 3), ElementsAre(0, 1, 2, 3));
}

TEST(Sampler, RandomizedRefusesMoreTokensThanPositions) {
  const SamplerConfig config = sampler({{"method", "randomized"}, {"max", 20}});
  EXPECT_EQ(sampler_refusal(config, 20), "");
  EXPECT_THAT(sampler_refusal(config, 21), AllOf(HasSubstr("20"), HasSubstr("21")));
  EXPECT_EQ(sampler_refusal(sampler("pose"), 1 << 20), "");
}

// PoSE's code for two chunks: the first is 1 to (L+1)/2 long, the gap 0 to max − L.
TEST(Sampler, PoseLeavesOneGapInTrainingAndNoneInEvaluation) {
  const SamplerConfig config = sampler({{"method", "pose"}, {"max", 12}});
  std::set<std::size_t> first_runs;
  std::set<double> gaps;
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    const auto positions = training(config, 8, seed);
    EXPECT_EQ(positions[0], 0);
    std::size_t jumps = 0;
    for (std::size_t i = 1; i < 8; ++i) {
      if (positions[i] == positions[i - 1] + 1) continue;
      ++jumps;
      first_runs.insert(i);
    }
    EXPECT_LE(jumps, 1u);
    gaps.insert(positions[7] - 7);
  }
  EXPECT_THAT(first_runs, ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(gaps, ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(evaluation(config, 3), ElementsAre(0, 1, 2));
  EXPECT_EQ(*sampler("pose", 16).max, 128);
}

TEST(Sampler, ADrawFollowsFromItsSeed) {
  for (const char* method : {"offset", "randomized", "pose"}) {
    const SamplerConfig config = sampler(method);
    EXPECT_EQ(training(config, 16, 7), training(config, 16, 7)) << method;
    EXPECT_NE(training(config, 16, 7), training(config, 16, 8)) << method;
  }
}

TEST(Sampler, OnlyDrawsWithoutGapsAreEvenlySpaced) {
  EXPECT_TRUE(evenly_spaced(sampler("arange"), SamplerUse::kTraining));
  EXPECT_TRUE(evenly_spaced(sampler("offset"), SamplerUse::kTraining));
  EXPECT_FALSE(evenly_spaced(sampler("randomized"), SamplerUse::kEvaluation));
  EXPECT_FALSE(evenly_spaced(sampler("pose"), SamplerUse::kTraining));
  EXPECT_TRUE(evenly_spaced(sampler("pose"), SamplerUse::kEvaluation));
}

}  // namespace
}  // namespace posenc
