#include <gtest/gtest.h>

#include "schemes/scheme.h"

namespace posenc {
namespace {

Tensor doubles(std::vector<double> values) { return torch::tensor(values, torch::kFloat64); }

/// One hidden layer of two units, t and 1 − t, for two heads: b = (silu(t) + 2·silu(1 − t), −3·silu(t)).
std::shared_ptr<Scheme> small(bool log_distance) {
  const auto scheme = make_scheme("dynamic", {{"depth", 1}, {"width", 2}, {"log_distance", log_distance}}, {.heads = 2});
  scheme->to(torch::kFloat64);
  const torch::NoGradGuard no_grad;
  auto p = scheme->named_parameters();
  EXPECT_EQ(p.size(), 3u);
  p["weight_0"].copy_(doubles({1, -1}).unsqueeze(1));
  p["bias_0"].copy_(doubles({0, 1}));
  p["weight_1"].copy_(torch::stack({doubles({1, 2}), doubles({-3, 0})}));
  return scheme;
}

// silu(x) = x/(1 + e^−x): silu(0) 0, silu(1) 0.7310585786, silu(2) 1.7615941560, silu(−1) −0.2689414214.
TEST(Dynamic, IsANetworkOfTheDistance) {
  const Tensor b = small(false)->distance_bias(doubles({0, 1, 2, 1, 0})).detach();
  EXPECT_TRUE(torch::allclose(b[0], doubles({1.4621171573, 0.7310585786, 1.2237113131, 0.7310585786, 1.4621171573}), 0, 1e-9))
      << b;
  EXPECT_TRUE(torch::allclose(b[1], doubles({0, -2.1931757359, -5.2847824679, -2.1931757359, 0}), 0, 1e-9)) << b;
}

TEST(Dynamic, MayTakeTheLogarithmOfTheDistance) {
  const Tensor b = small(true)->distance_bias(doubles({0, 1.718281828459045, 6.38905609893065})).detach();  // e − 1, e² − 1
  EXPECT_TRUE(torch::allclose(b[0], doubles({1.4621171573, 0.7310585786, 1.2237113131}), 0, 1e-9)) << b;
}

TEST(Dynamic, EveryHiddenLayerButTheFirstIsSquare) {
  const auto p = make_scheme("dynamic", {{"depth", 3}, {"width", nullptr}}, {.d_model = 20, .heads = 2})->named_parameters();
  EXPECT_EQ(p.size(), 7u);
  EXPECT_EQ(p["weight_0"].sizes(), torch::IntArrayRef({5, 1}));
  EXPECT_EQ(p["weight_1"].sizes(), torch::IntArrayRef({5, 5}));
  EXPECT_EQ(p["weight_2"].sizes(), torch::IntArrayRef({5, 5}));
  EXPECT_EQ(p["weight_3"].sizes(), torch::IntArrayRef({2, 5}));
  EXPECT_EQ(p["bias_2"].sizes(), torch::IntArrayRef({5}));
  EXPECT_FALSE(p.contains("bias_3"));
}

// silu'(0) = 0.5, silu'(1) = 0.9276705119.
TEST(Dynamic, ADistanceThatOccursTwiceCountsTwiceInTheGradient) {
  const auto scheme = small(false);
  scheme->distance_bias(doubles({1, 1, 0}))[0].sum().backward();
  const auto p = scheme->named_parameters();
  EXPECT_TRUE(torch::allclose(p["weight_1"].grad()[0], doubles({1.4621171573, 0.7310585786}), 0, 1e-9));
  EXPECT_TRUE(torch::allclose(p["bias_0"].grad(), doubles({2.3553410238, 3.8553410238}), 0, 1e-9)) << p["bias_0"].grad();
}

TEST(Dynamic, StartsAsLinearLayersOfTorchDo) {
  const auto scheme = make_scheme("dynamic", {{"depth", 2}, {"width", 256}}, {.heads = 64});
  scheme->initialise(torch::make_generator<torch::CPUGeneratorImpl>(1));
  const auto p = scheme->named_parameters();
  const std::pair<const char*, double> expected[] = {
      {"weight_0", 1}, {"bias_0", 1}, {"weight_1", 0.0625}, {"bias_1", 0.0625}, {"weight_2", 0.0625}};  // 1/√1, 1/√256
  for (const auto& [name, bound] : expected) {
    EXPECT_LE(p[name].abs().max().item<double>(), bound) << name;
    EXPECT_NEAR(p[name].std().item<double>(), bound * 0.57735, bound * 0.1) << name;  // of 256 draws at least: three times 0.03
  }
}

}  // namespace
}  // namespace posenc
