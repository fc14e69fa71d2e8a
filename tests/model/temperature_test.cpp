#include "model/temperature.h"

#include <gmock/gmock.h>

namespace posenc {
namespace {

Frame frame_of(std::int64_t first_query, std::int64_t queries, std::int64_t train_length, Visibility visible = {}) {
  const Tensor keys = torch::arange(first_query + queries, torch::kFloat64);
  return {{keys.slice(0, first_query), 1}, {keys, 1}, first_query, train_length, visible};
}

/// τ of the one query that has `index` keys before it.
double tau_at(const TemperatureConfig& config, std::int64_t index, std::int64_t train_length, bool training = false,
              const Tensor& learned = {}) {
  const Tensor tau = temperature(config, learned, frame_of(index, 1, train_length), training);
  return tau.defined() ? tau.flatten()[0].item<double>() : 1;
}

// Expected numbers: schemes.md §1.22.
TEST(Temperature, LogNGrowsBeyondTheTrainingLengthOnly) {
  const TemperatureConfig config{.method = "log_n"};
  EXPECT_EQ(tau_at(config, 511, 512), 1);
  EXPECT_EQ(tau_at(config, 9, 512), 1);
  EXPECT_NEAR(tau_at(config, 1023, 512), 1.111111, 5e-7);
  EXPECT_NEAR(tau_at(config, 4095, 512), 1.333333, 5e-7);
  EXPECT_FALSE(temperature(config, {}, frame_of(1023, 1, 512), /*training=*/true).defined());
}

TEST(Temperature, LogNOfTrainingIsNotClipped) {
  const TemperatureConfig config{.method = "log_n", .form = "training"};
  EXPECT_EQ(tau_at(config, 0, 512, true), 0);
  EXPECT_NEAR(tau_at(config, 7, 512, true), 1.0 / 3, 1e-12);  // ln 8 / ln 512
  EXPECT_NEAR(tau_at(config, 1023, 512), 1.111111, 5e-7);
}

TEST(Temperature, SsmaxMultipliesTheLogarithmOfTheKeysByHead) {
  const TemperatureConfig config{.method = "ssmax"};
  const Tensor tau = temperature(config, torch::tensor({0.5f, 2.0f}), frame_of(0, 3, 16), true);  // [2, 3, 1]
  ASSERT_EQ(tau.sizes(), torch::IntArrayRef({2, 3, 1}));
  EXPECT_EQ(tau[0][0].item<double>(), 0);
  EXPECT_NEAR(tau[0][1].item<double>(), 0.34657359, 1e-7);  // ln 2 / 2
  EXPECT_NEAR(tau[1][2].item<double>(), 2.19722458, 1e-6);  // 2·ln 3
}

// Nakanishi 2025: 0.168 for a length of 1024.
TEST(Temperature, SsmaxStartsAtAMeanOfOne) {
  EXPECT_NEAR(ssmax_init(1024), 0.168, 0.001);
  EXPECT_NEAR(ssmax_init(2), 2 / 0.69314718, 1e-7);
  EXPECT_EQ(ssmax_init(1), 1);
}

TEST(Temperature, Llama4StepsAtMultiplesOfTheFloor) {
  const TemperatureConfig config{.method = "llama4", .floor = 8192};
  EXPECT_EQ(tau_at(config, 8190, 512), 1);
  EXPECT_NEAR(tau_at(config, 8191, 512), 1.069315, 5e-7);
  EXPECT_NEAR(tau_at(config, 65535, 512), 1.219722, 5e-7);
  EXPECT_EQ(tau_at(config, 65535, 512, /*training=*/true), 1);
  EXPECT_NEAR(tau_at({.method = "llama4"}, 511, 512), 1.069315, 5e-7);  // the floor is the training length
}

std::vector<double> counts(const Frame& frame) {
  const Tensor seen = frame.seen_counts();
  return {seen.data_ptr<double>(), seen.data_ptr<double>() + seen.numel()};
}

// What seen_counts says is what unseen leaves.
TEST(Visibility, TheKeysSeenAreCounted) {
  for (const Visibility v :
       {Visibility{}, Visibility{.window = 3}, Visibility{.chunk = 4}, Visibility{.window = 3, .keep_first = 2},
        Visibility{.chunk = 4, .keep_first = 5}, Visibility{.window = 2, .chunk = 5, .keep_first = 1}}) {
    const Frame frame = frame_of(2, 11, 16, v);
    const Tensor seen = (~frame.unseen()).sum(1).to(torch::kFloat64);
    EXPECT_TRUE(torch::equal(frame.seen_counts(), seen)) << v.window << " " << v.chunk << " " << v.keep_first;
  }
  EXPECT_THAT(counts(frame_of(0, 6, 16, {.window = 3})), testing::ElementsAre(1, 2, 3, 3, 3, 3));
  EXPECT_THAT(counts(frame_of(0, 6, 16, {.chunk = 4})), testing::ElementsAre(1, 2, 3, 4, 1, 2));
  EXPECT_THAT(counts(frame_of(0, 6, 16, {.window = 2, .keep_first = 1})), testing::ElementsAre(1, 2, 3, 3, 3, 3));
}

}  // namespace
}  // namespace posenc
