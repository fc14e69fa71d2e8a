#include "train/optimizer.h"

#include <gtest/gtest.h>

#include <cmath>

namespace posenc {
namespace {

TrainConfig adamw(double weight_decay) {
  TrainConfig config;
  config.betas = {0.9, 0.95};
  config.eps = 1e-8;
  config.weight_decay = weight_decay;
  return config;
}

Tensor parameter(at::IntArrayRef shape, double value, torch::ScalarType dtype = torch::kFloat64) {
  return torch::full(shape, value, dtype);
}

// Fault 102: the decay multiplies the parameter before the update, and never enters the moments.
TEST(AdamW, FirstStepDecaysTheParameterAndNotTheMoments) {
  for (const auto dtype : {torch::kFloat32, torch::kFloat64}) {
    const Tensor p = parameter({1, 1}, 1.0, dtype);
    AdamW optimizer({p}, adamw(0.1));
    optimizer.step({parameter({1, 1}, 0.999, dtype)}, 0.1, 1);
    EXPECT_NEAR(p.item<double>(), 0.890, 1e-6);  // 1·(1 − 0.1·0.1) − 0.1; 0.891: decayed after, 0.900: L2 in the gradient
    EXPECT_NEAR(optimizer.first_moments()[0].item<double>(), 0.0999, 1e-7);       // (1 − 0.9)·0.999
    EXPECT_NEAR(optimizer.second_moments()[0].item<double>(), 0.04990005, 1e-8);  // (1 − 0.95)·0.999²
  }
}

TEST(AdamW, OnlyMatricesDecayUnlessAllAreToldTo) {
  for (const std::string decay : {"matrices", "all"}) {
    TrainConfig config = adamw(0.1);
    config.decay = decay;
    const Tensor vector = parameter({1}, 1.0), matrix = parameter({1, 1}, 1.0);
    AdamW optimizer({vector, matrix}, config);
    optimizer.step({parameter({1}, 0.0), parameter({1, 1}, 0.0)}, 0.1, 1);
    EXPECT_DOUBLE_EQ(vector.item<double>(), decay == "all" ? 0.99 : 1.0);
    EXPECT_DOUBLE_EQ(matrix.item<double>(), 0.99);
  }
}

// Loshchilov, Hutter 2019, algorithm 2, by hand for gradients 1 and −0.5: m = 0.04, v = 0.06 after the second;
// 0.9 + 1e-9 − 0.1·(0.04 / 0.19) / (√(0.06 / 0.0975) + 1e-8).
TEST(AdamW, SecondStepCorrectsTheBiasOfBothMoments) {
  const Tensor p = parameter({1}, 1.0);
  AdamW optimizer({p}, adamw(0));
  optimizer.step({parameter({1}, 1.0)}, 0.1, 1);
  EXPECT_NEAR(p.item<double>(), 0.900000001, 1e-12);
  optimizer.step({parameter({1}, -0.5)}, 0.1, 1);
  EXPECT_NEAR(p.item<double>(), 0.8731630565, 1e-10);
  EXPECT_EQ(optimizer.updates(), 2);
}

TEST(AdamW, ScaleAppliesToTheGradientBeforeTheMoments) {
  const Tensor p = parameter({2}, 1.0);
  AdamW optimizer({p}, adamw(0));
  optimizer.step({parameter({2}, 4.0)}, 0.1, 0.25);
  EXPECT_NEAR(optimizer.first_moments()[0][0].item<double>(), 0.1, 1e-15);  // of 4·0.25
  EXPECT_NEAR(optimizer.second_moments()[0][0].item<double>(), 0.05, 1e-15);
}

TEST(AdamW, MomentsAndUpdatesAreAllThatAContinuationNeeds) {
  const auto gradient = [](int step) { return torch::tensor({0.3 * step - 0.5, 0.1 * step, -0.2}, torch::kFloat32); };
  const Tensor straight = parameter({3}, 1.0, torch::kFloat32), stopped = parameter({3}, 1.0, torch::kFloat32);
  AdamW whole({straight}, adamw(0.1)), first({stopped}, adamw(0.1)), second({stopped}, adamw(0.1));
  for (int step = 0; step < 4; ++step) whole.step({gradient(step)}, 0.01, 1);
  for (int step = 0; step < 2; ++step) first.step({gradient(step)}, 0.01, 1);
  second.first_moments()[0].copy_(first.first_moments()[0]);
  second.second_moments()[0].copy_(first.second_moments()[0]);
  second.set_updates(first.updates());
  for (int step = 2; step < 4; ++step) second.step({gradient(step)}, 0.01, 1);
  EXPECT_TRUE(stopped.equal(straight));
}

TEST(GradientNorm, IsOverAllTensorsTogether) {
  EXPECT_DOUBLE_EQ(gradient_norm({parameter({1}, 3.0), parameter({2, 2}, 2.0)}), 5.0);  // √(9 + 4·4)
}

TEST(GradientNorm, SquaresThatOverflowFloat32DoNot) {
  EXPECT_NEAR(gradient_norm({parameter({4}, 1e30, torch::kFloat32)}), 2e30, 2e23);  // 1e30 as a float32
}

TEST(GradientNorm, NanAndInfinityShow) {
  EXPECT_TRUE(std::isnan(gradient_norm({parameter({2}, 1.0), parameter({2}, std::nan(""))})));
  EXPECT_TRUE(std::isinf(gradient_norm({parameter({2}, HUGE_VAL, torch::kFloat32)})));
}

}  // namespace
}  // namespace posenc
