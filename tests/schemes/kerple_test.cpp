#include <gtest/gtest.h>

#include "schemes/scheme.h"

namespace posenc {
namespace {

Tensor doubles(std::vector<double> values) { return torch::tensor(values, torch::kFloat64); }

/// The scheme in double with these numbers for its heads, one each.
std::shared_ptr<Scheme> kerple(const char* name, const std::vector<std::pair<std::string, std::vector<double>>>& numbers) {
  const auto scheme = make_scheme(name, Json::object(), {.heads = static_cast<std::int64_t>(numbers[0].second.size())});
  scheme->to(torch::kFloat64);
  const torch::NoGradGuard no_grad;
  for (const auto& [parameter, values] : numbers) scheme->named_parameters()[parameter].copy_(doubles(values));
  return scheme;
}

/// Six decimals are given.
void expect_bias(const Scheme& scheme, std::vector<double> distances, const std::vector<std::vector<double>>& expected) {
  const Tensor bias = scheme.distance_bias(doubles(distances)).detach();
  ASSERT_EQ(bias.size(0), static_cast<std::int64_t>(expected.size()));
  for (std::size_t h = 0; h < expected.size(); ++h) {
    EXPECT_TRUE(torch::allclose(bias[static_cast<std::int64_t>(h)], doubles(expected[h]), 0, 5e-7)) << bias[h];
  }
}

TEST(KerpleLog, IsTheLogarithmOfTheDistance) {
  expect_bias(*kerple("kerple_log", {{"r1", {1, 2}}, {"r2", {1, 0.5}}}), {0, 1, 2, 4, 16, 512},
              {{0, -0.693147, -1.098612, -1.609438, -2.833213, -6.240276},     // −ln(1 + d)
               {0, -0.810930, -1.386294, -2.197225, -4.394449, -11.098152}});  // −2·ln(1 + d/2)
}

TEST(KerplePower, IsAPowerOfTheDistance) {
  expect_bias(*kerple("kerple_power", {{"r1", {0.5, 0.25}}, {"r2", {0.5, 1.5}}}), {0, 4, 16, 128},
              {{0, -1, -2, -5.656854}, {0, -2, -16, -362.038672}});
}

// The authors clamp in each forward: r1, r2 ≥ 0.01 and, for the power, r2 ≤ 2.
TEST(Kerple, ClampsItsNumbersAsTheAuthorsDo) {
  expect_bias(*kerple("kerple_log", {{"r1", {-0.3, 1}}, {"r2", {1, -5}}}), {0, 1, 9},
              {{0, -0.006931, -0.023026}, {0, -0.009950, -0.086178}});  // −0.01·ln(1 + d), −ln(1 + 0.01·d)
  expect_bias(*kerple("kerple_power", {{"r1", {-0.3, 1, 1}}, {"r2", {1, -5, 3}}}), {0, 1, 4},
              {{0, -0.01, -0.04}, {0, -1, -1.013959}, {0, -1, -16}});  // 4^0.01, 4²
}

TEST(Kerple, ANumberHasAGradientUpToItsClampAndNoneBeyond) {
  const auto scheme = kerple("kerple_log", {{"r1", {0.01, 0.009}}, {"r2", {1, 1}}});
  for (const auto dtype : {torch::kFloat64, torch::kFloat32}) {  // 0.01 is rounded down in single precision
    scheme->to(dtype);
    scheme->zero_grad();
    scheme->distance_bias(doubles({1})).sum().backward();
    const Tensor grad = scheme->named_parameters()["r1"].grad();
    EXPECT_NEAR(grad[0].item<double>(), -0.693147, 1e-6);  // −ln 2
    EXPECT_EQ(grad[1].item<double>(), 0);
  }
}

// d^r2 = 0 at d = 0 for every r2; its derivative by r2, d^r2·ln d, would be NaN there.
TEST(KerplePower, AKeyAtNoDistanceSpoilsNoGradient) {
  const auto scheme = kerple("kerple_power", {{"r1", {2}}, {"r2", {0.5}}});
  scheme->distance_bias(doubles({0, 4, 0})).sum().backward();
  EXPECT_NEAR(scheme->named_parameters()["r1"].grad().item<double>(), -2, 1e-12);        // −√4
  EXPECT_NEAR(scheme->named_parameters()["r2"].grad().item<double>(), -5.545177, 1e-6);  // −2·√4·ln 4
}

TEST(KerplePower, WithExponentsOfOneItIsAlibi) {
  const ModelShape shape{.heads = 4};
  const auto scheme = make_scheme("kerple_power", {{"init", "alibi"}}, shape);
  scheme->initialise(torch::make_generator<torch::CPUGeneratorImpl>(1));
  const Tensor distances = doubles({0, 1, 2, 0.5, 17, 100000});
  const Tensor bias = scheme->distance_bias(distances).detach();
  const Tensor alibi = make_scheme("alibi", Json::object(), shape)->distance_bias(distances);
  EXPECT_TRUE(torch::allclose(bias.slice(0, 0, 3), alibi.slice(0, 0, 3), 1e-12, 0));  // the power comes from exp(r2·ln d)
  EXPECT_TRUE(torch::allclose(bias[3], -0.01 * distances, 1e-7, 0));                  // ALiBi's 2^-8 is below the clamp
}

/// Frame of queries `begin` … `end` − 1 over all keys before `end`, positions `step` apart.
Frame frame_of(std::int64_t begin, std::int64_t end, double step, bool evenly) {
  const Tensor positions = torch::arange(end, torch::kFloat64) * step;
  const double spacing = evenly ? step : 0;
  return {{positions.slice(0, begin, end), spacing}, {positions, spacing}, begin, end};
}

TEST(KerplePowerWeight, WeighsTheLogitsAndThenAddsTheBias) {
  // Head 0: s·e^(−0.5·d) − 0.25·d²; head 1: s·e^(−√d) − 2·√d.
  const auto scheme = kerple("kerple_power_weight", {{"r1", {0.25, 2}}, {"r2", {2, 0.5}}, {"w1", {0.5, 1}}, {"w2", {1, 0.5}}});
  EXPECT_FALSE(scheme->distance_bias(doubles({1})).defined());
  const Tensor s = torch::full({1, 2, 1, 5}, 10.0, torch::kFloat64);
  for (const bool evenly : {true, false}) {
    const Tensor got = scheme->score(s, {}, frame_of(4, 5, 1, evenly)).detach();
    EXPECT_TRUE(torch::allclose(got[0][0][0], doubles({-2.646647, -0.018698, 2.678794, 5.815307, 10}), 0, 1e-6)) << got;
    EXPECT_TRUE(torch::allclose(got[0][1][0], doubles({-2.646647, -1.694890, -0.397260, 1.678794, 10}), 0, 1e-6)) << got;
  }
}

TEST(KerplePowerWeight, GoesByPositionInEveryBlockOfQueries) {
  const auto scheme = kerple("kerple_power_weight", {{"r1", {0.25}}, {"r2", {1}}, {"w1", {0.5}}, {"w2", {1}}});
  const Tensor s = torch::full({1, 1, 2, 4}, 10.0, torch::kFloat64);
  for (const bool evenly : {true, false}) {
    const Tensor got = scheme->score(s, {}, frame_of(2, 4, 2, evenly)).detach()[0][0].tril(2);  // distances 4 2 0; 6 4 2 0
    EXPECT_TRUE(torch::allclose(got[0], doubles({0.353353, 3.178794, 10, 0}), 0, 1e-6)) << got;
    EXPECT_TRUE(torch::allclose(got[1], doubles({-1.002129, 0.353353, 3.178794, 10}), 0, 1e-6)) << got;
  }
}

TEST(Kerple, StartsUniformlyAsTheAuthorsDo) {
  struct {
    const char *name, *parameter;
    double limit;
  } const expected[] = {{"kerple_log", "r1", 2},          {"kerple_log", "r2", 1},          {"kerple_power", "r1", 1},
                        {"kerple_power", "r2", 2},        {"kerple_power_weight", "r1", 1}, {"kerple_power_weight", "r2", 2},
                        {"kerple_power_weight", "w1", 1}, {"kerple_power_weight", "w2", 2}};
  for (const auto& [name, parameter, limit] : expected) {
    SCOPED_TRACE(std::string(name) + " " + parameter);
    const auto scheme = make_scheme(name, Json::object(), {.heads = 1 << 16});
    scheme->initialise(torch::make_generator<torch::CPUGeneratorImpl>(1));
    const Tensor drawn = scheme->named_parameters()[parameter];
    EXPECT_NEAR(drawn.mean().item<double>(), limit / 2, 0.006 * limit);  // five times limit/√(12·2^16)
    EXPECT_NEAR(drawn.max().item<double>(), limit, 1e-3);
    EXPECT_FLOAT_EQ(drawn.min().item<float>(), 0.01f);
  }
}

TEST(Kerple, MayStartFromAlibi) {
  const auto log = make_scheme("kerple_log", {{"init", "alibi"}}, {.heads = 2});
  log->initialise(torch::make_generator<torch::CPUGeneratorImpl>(1));
  expect_bias(*log, {0, 1}, {{0, -0.043322}, {0, -0.006931}});  // 2^-4·ln 2; 0.01·ln 2 for 2^-8
}

}  // namespace
}  // namespace posenc
