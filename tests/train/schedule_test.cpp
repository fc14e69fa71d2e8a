#include "train/schedule.h"

#include <gtest/gtest.h>

#include <cmath>

namespace posenc {
namespace {

TrainConfig nanogpt_like() {
  TrainConfig config;
  config.lr = 0.003;
  config.min_lr = 0.0003;
  config.warmup = 5;
  config.steps = 18;
  return config;
}

std::vector<double> rates(const TrainConfig& config, std::int64_t begin, std::int64_t end) {
  std::vector<double> all;
  for (std::int64_t step = begin; step < end; ++step) all.push_back(learning_rate(config, step));
  return all;
}

TEST(Schedule, WarmupThenCosineIsNanoGptsGetLr) {
  // nanoGPT train.py get_lr with warmup_iters 5, lr_decay_iters 18; by hand 0.0003 + 0.0027·(1 + cos(π·(s − 5)/13))/2, as in
  // tests/golden/train/nanogpt_cosine_nobias.json.
  const std::vector<std::pair<std::int64_t, double>> expected = {{0, 0.0005},        {4, 0.0025},        {5, 0.003},
                                                                 {6, 0.00296077145}, {7, 0.00284536563}, {10, 0.0021287166},
                                                                 {18, 0.0003},       {19, 0.0003}};
  for (const auto& [step, rate] : expected) EXPECT_NEAR(learning_rate(nanogpt_like(), step), rate, 1e-11) << step;  // nine digits
}

TEST(Schedule, LinearFallsEvenlyToTheLastStep) {
  TrainConfig config = nanogpt_like();
  config.schedule = "linear";
  config.warmup = 0;
  config.steps = 10;
  EXPECT_DOUBLE_EQ(learning_rate(config, 0), 0.003);
  EXPECT_DOUBLE_EQ(learning_rate(config, 5), 0.00165);  // half way between 0.003 and 0.0003
  EXPECT_DOUBLE_EQ(learning_rate(config, 10), 0.0003);
}

TEST(Schedule, ConstantStaysAtThePeakAfterTheWarmup) {
  TrainConfig config = nanogpt_like();
  config.schedule = "constant";
  EXPECT_DOUBLE_EQ(learning_rate(config, 0), 0.0005);
  EXPECT_DOUBLE_EQ(learning_rate(config, 5), 0.003);
  EXPECT_DOUBLE_EQ(learning_rate(config, 1'000'000), 0.003);
}

TEST(Schedule, MinimumIsATenthOfThePeakUnlessGiven) {
  TrainConfig config = nanogpt_like();
  config.min_lr.reset();
  EXPECT_DOUBLE_EQ(learning_rate(config, 18), 0.0003);
  config.min_lr = 0.0;
  EXPECT_DOUBLE_EQ(learning_rate(config, 18), 0.0);
}

TEST(Schedule, WithoutAWarmupTheFirstStepHasThePeak) {
  TrainConfig config = nanogpt_like();
  config.warmup = 0;
  EXPECT_DOUBLE_EQ(learning_rate(config, 0), 0.003);
}

// Fault 71: a warm-up as long as the training, or longer, divides by nothing on the first step after it.
TEST(Schedule, AWarmupAsLongAsTheTrainingOrLongerStaysFinite) {
  const std::vector<std::pair<std::int64_t, std::int64_t>> warmup_of_steps = {{10, 10}, {12, 10}, {0, 10},
                                                                              {0, 1},   {1, 1},   {0, 0}};
  for (const auto& [warmup, steps] : warmup_of_steps) {
    for (const std::string schedule : {"cosine", "linear", "constant"}) {
      TrainConfig config = nanogpt_like();
      config.warmup = warmup;
      config.steps = steps;
      config.schedule = schedule;
      for (const double rate : rates(config, 0, 30)) {
        EXPECT_TRUE(std::isfinite(rate)) << schedule << " " << warmup << " of " << steps;
        EXPECT_GE(rate, 0) << schedule << " " << warmup << " of " << steps;
        EXPECT_LE(rate, 0.003) << schedule << " " << warmup << " of " << steps;
      }
      if (warmup > 8) {
        EXPECT_DOUBLE_EQ(learning_rate(config, 8), warmup == 10 ? 0.003 * 9 / 11 : 0.003 * 9 / 13);
      }
    }
  }
}

// Faults 90 and 91, the schedule's part: a resume asks for the rate of a step and gets what the straight run had, inside the
// warm-up and after it.
TEST(Schedule, TheRateOfAStepDoesNotDependOnWhereTheRunBegan) {
  TrainConfig config = nanogpt_like();
  config.warmup = 40;
  config.steps = 100;
  const std::vector<double> straight = rates(config, 0, 100);
  for (const std::vector<std::int64_t>& resumes : {std::vector<std::int64_t>{37}, {33, 66}}) {
    std::vector<double> list;
    for (std::size_t part = 0; part <= resumes.size(); ++part) {
      const auto more = rates(config, part == 0 ? 0 : resumes[part - 1], part == resumes.size() ? 100 : resumes[part]);
      list.insert(list.end(), more.begin(), more.end());
    }
    EXPECT_EQ(list, straight);
  }
  EXPECT_LT(straight[36], straight[37]);  // still warming up at 37
  EXPECT_GT(straight[65], straight[66]);  // decaying at 66
}

}  // namespace
}  // namespace posenc
