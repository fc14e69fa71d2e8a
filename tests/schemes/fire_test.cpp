#include <gtest/gtest.h>

#include "schemes/scheme.h"

namespace posenc {
namespace {

Tensor doubles(std::vector<double> values) { return torch::tensor(values, torch::kFloat64); }

/// FIRE in double with c 0.1, L 512 and these hidden units.
std::shared_ptr<Scheme> fire(std::vector<double> weight, std::vector<double> bias,
                             const std::vector<std::vector<double>>& output) {
  const auto scheme = make_scheme("fire", {{"width", static_cast<std::int64_t>(weight.size())}, {"init_length", 512.0}},
                                  {.heads = static_cast<std::int64_t>(output.size()), .train_length = 64});
  scheme->to(torch::kFloat64);
  scheme->initialise(torch::make_generator<torch::CPUGeneratorImpl>(1));
  const torch::NoGradGuard no_grad;
  auto p = scheme->named_parameters();
  p["hidden_weight"].copy_(doubles(weight));
  p["hidden_bias"].copy_(doubles(bias));
  for (std::size_t h = 0; h < output.size(); ++h) p["output_weight"][static_cast<std::int64_t>(h)].copy_(doubles(output[h]));
  return scheme;
}

/// The bias [H] of the query at position i on the key at position j.
Tensor bias_at(const Scheme& scheme, double i, double j) {
  return scheme.bias({{doubles({i}), 0}, {doubles({j}), 0}, 0, 64}).select(2, 0).select(1, 0);
}

// One unit that passes the share of the distance on.
TEST(Fire, DividesTheLogarithmOfTheDistanceByThatOfThePosition) {
  const auto scheme = fire({1}, {0}, {{1}});
  struct {
    double i, d, share;
  } const expected[] = {{10, 5, 0.102517},    {511, 1, 0.024098}, {511, 10, 0.175255}, {511, 511, 0.999515},
                        {1023, 10, 0.149461}, {1023, 1023, 1},    {2047, 10, 0.130134}};
  for (const auto& [i, d, share] : expected) EXPECT_NEAR(bias_at(*scheme, i, i - d).item<double>(), share, 6e-7) << i << " " << d;
  EXPECT_EQ(bias_at(*scheme, 0, 0).item<double>(), 0);
}

// Shares u of 0, 0.175255 (511, 10) and 1 (1023, 1023); head 0 is 2·relu(u − 0.1) + relu(0.5 − u), head 1 is
// relu(−u − 0.1) + 3·relu(0.2) + 7·relu(−0.2).
TEST(Fire, TheNetworkIsARectifiedOne) {
  const auto scheme = fire({1, -1, -1, 0, 0}, {-0.1, 0.5, -0.1, 0.2, -0.2}, {{2, 1, 0, 0, 0}, {0, 0, 1, 3, 7}});
  const std::pair<double, double> share_of[] = {{0, 0.5}, {10, 0.475255}, {1023, 1.8}};
  for (const auto& [d, expected] : share_of) {
    const double i = d == 1023 ? 1023 : 511;
    const Tensor b = bias_at(*scheme, i, i - d);
    EXPECT_NEAR(b[0].item<double>(), expected, 1e-6) << d;
    EXPECT_NEAR(b[1].item<double>(), 0.6, 1e-12) << d;
  }
}

// For u = 0.175255 the units relu(u − 0.1) and relu(0.5 − u) are at work, relu(u − 0.9) is not.
TEST(Fire, GradientsAreThoseOfTheUnitsAtWork) {
  const auto scheme = fire({1, -1, 1}, {-0.1, 0.5, -0.9}, {{2, 1, 5}});
  bias_at(*scheme, 511, 501).sum().backward();
  const auto p = scheme->named_parameters();
  EXPECT_TRUE(torch::allclose(p["hidden_weight"].grad(), doubles({0.350510, 0.175255, 0}), 0, 2e-6));
  EXPECT_TRUE(torch::allclose(p["hidden_bias"].grad(), doubles({2, 1, 0}), 0, 1e-12));
  EXPECT_TRUE(torch::allclose(p["output_weight"].grad()[0], doubles({0.075255, 0.324745, 0}), 0, 1e-6));
  // u = ln(1 + 10c)/ln(1 + 512cf): du/dc = (10/(1 + 10c) − u·512/(1 + 512c))/ln(1 + 512c), du/df = −u·51.2/52.2/ln 52.2;
  // times 2 − 1, the slope of the network there.
  EXPECT_NEAR(p["c"].grad().item<double>(), (5 - 0.1752552 * 9.8084291) / 3.9550825, 1e-5);
  EXPECT_NEAR(p["length_factor"].grad().item<double>(), -0.1752552 * 0.98084291 / 3.9550825, 1e-6);
}

TEST(Fire, GradientsAreFiniteWhereItsNumbersAreZero) {
  const auto scheme = make_scheme("fire", {{"width", 3}}, {.heads = 2, .train_length = 64});  // all parameters are
  const Tensor positions = torch::arange(4, torch::kFloat64);
  const Tensor bias = scheme->bias({{positions, 1}, {positions, 1}, 0, 64});
  EXPECT_EQ(bias.abs().max().item<double>(), 0);
  bias.sum().backward();
  for (const auto& item : scheme->named_parameters())
    EXPECT_TRUE(item.value().grad().isfinite().all().item<bool>()) << item.key();
}

TEST(Fire, StartsFromTheTrainingLengthUnlessToldAnother) {
  const auto scheme = make_scheme("fire", {{"width", 1}}, {.heads = 1, .train_length = 512});
  scheme->initialise(torch::make_generator<torch::CPUGeneratorImpl>(1));
  const torch::NoGradGuard no_grad;
  auto p = scheme->named_parameters();
  EXPECT_FLOAT_EQ(p["c"].item<float>(), 0.1f);
  EXPECT_EQ(p["length_factor"].item<double>(), 1);
  p["hidden_weight"].fill_(1);
  p["hidden_bias"].zero_();
  p["output_weight"].fill_(1);
  EXPECT_NEAR(bias_at(*scheme, 511, 501).item<double>(), 0.175255, 1e-6);
}

TEST(Fire, MayStartAsNoPositions) {
  for (const bool zero_init : {false, true}) {
    const auto scheme = make_scheme("fire", {{"zero_init", zero_init}}, {.heads = 64, .train_length = 64});
    scheme->initialise(torch::make_generator<torch::CPUGeneratorImpl>(1));
    const auto p = scheme->named_parameters();
    EXPECT_NEAR(p["hidden_weight"].abs().max().item<double>(), 1, 0.2);
    EXPECT_NEAR(p["output_weight"].abs().max().item<double>(), zero_init ? 0 : 0.176777, 1e-3);  // 1/√32, of 2048 draws
  }
}

}  // namespace
}  // namespace posenc
