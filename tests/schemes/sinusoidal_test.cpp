#include "schemes/sinusoidal.h"

#include <gmock/gmock.h>

#include "schemes/scheme.h"

namespace posenc {
namespace {

using ::testing::DoubleNear;
using ::testing::Pointwise;

std::shared_ptr<Scheme> sinusoidal(std::int64_t d_model, const std::string& layout, const std::string& frequencies,
                                   bool token_scale) {
  return make_scheme("sinusoidal",
                     {{"base", 10000.0}, {"layout", layout}, {"frequencies", frequencies}, {"token_scale", token_scale}},
                     {.d_model = d_model});
}

/// What position `p` adds to a token embedding of zeros.
std::vector<double> row(const Scheme& scheme, std::int64_t d_model, double p) {
  const Positions at{torch::tensor({p}, torch::kFloat64)};
  const Tensor out = scheme.embed(torch::zeros({1, 1, d_model}, torch::kFloat64), {at, at, 0, 16});
  return {out.data_ptr<double>(), out.data_ptr<double>() + d_model};
}

void expect_row(const std::vector<double>& found, const std::vector<double>& expected) {
  EXPECT_THAT(found, Pointwise(DoubleNear(6e-7), expected));
}

// Vaswani et al. 2017, section 3.5, at d = 8.
TEST(Sinusoidal, TheFirstPositionsAreThoseOfThePaper) {
  const auto scheme = sinusoidal(8, "interleaved", "paper", true);
  expect_row(row(*scheme, 8, 0), {0, 1, 0, 1, 0, 1, 0, 1});
  expect_row(row(*scheme, 8, 1), {0.841471, 0.540302, 0.099833, 0.995004, 0.010000, 0.999950, 0.001000, 1.000000});
}

TEST(Sinusoidal, ConcatHasAllSinesFirst) {
  expect_row(row(*sinusoidal(8, "concat", "paper", true), 8, 1),
             {0.841471, 0.099833, 0.010000, 0.001000, 0.540302, 0.995004, 0.999950, 1.000000});
}

// d = 8: exponents k/3, so that the last wavelength is 2π·10000.
TEST(Sinusoidal, TensorToTensorSpreadsTheFrequenciesOverTheWholeBase) {
  EXPECT_THAT(sinusoidal_frequencies(8, 10000, /*tensor2tensor=*/true),
              Pointwise(DoubleNear(5e-8), {1.0, 0.0464159, 0.0021544, 0.0001}));
  EXPECT_THAT(sinusoidal_frequencies(8, 10000, /*tensor2tensor=*/false), Pointwise(DoubleNear(1e-15), {1.0, 0.1, 0.01, 0.001}));
  expect_row(row(*sinusoidal(8, "concat", "tensor2tensor", true), 8, 3),
             {0.1411200, 0.1387981, 0.0064633, 0.0003, -0.9899925, 0.9903207, 0.9999791, 1.0});
}

// Fault 10: an odd width leaves a spare sine, which is the last column interleaved and the last of the sines concatenated.
TEST(Sinusoidal, AnOddWidthHasASpareSine) {
  expect_row(row(*sinusoidal(7, "interleaved", "paper", true), 7, 1),
             {0.8414710, 0.5403023, 0.0719065, 0.9974114, 0.0051795, 0.9999866, 0.0003728});
  expect_row(row(*sinusoidal(7, "concat", "paper", true), 7, 1),
             {0.8414710, 0.0719065, 0.0051795, 0.0003728, 0.5403023, 0.9974114, 0.9999866});
}

TEST(Sinusoidal, TokensCountRootWidthTimesUnlessToldOtherwise) {
  const Positions at{torch::tensor({0.0}, torch::kFloat64)};
  const Tensor ones = torch::ones({1, 1, 16}, torch::kFloat64);
  const Frame frame{at, at, 0, 16};
  EXPECT_TRUE(torch::equal(sinusoidal(16, "concat", "paper", true)->embed(ones, frame)[0][0].slice(0, 0, 8),
                           torch::full({8}, 4.0, torch::kFloat64)));
  EXPECT_TRUE(torch::equal(sinusoidal(16, "concat", "paper", false)->embed(ones, frame)[0][0].slice(0, 0, 8),
                           torch::ones({8}, torch::kFloat64)));
}

// Fault 22: the angle of feature 1 at position 1857 and width 32 is 1044.2678; rounded to half precision it came out as 1045.
TEST(Sinusoidal, AnglesAreFormedInDouble) {
  const auto scheme = sinusoidal(32, "interleaved", "paper", true);
  scheme->to(torch::kBFloat16);  // as a model-wide cast would
  const Positions at{torch::tensor({1857.0}, torch::kFloat64)};
  const Tensor out = scheme->embed(torch::zeros({1, 1, 32}), {at, at, 0, 16});
  EXPECT_NEAR(out[0][0][2].item<double>(), 0.95180855, 1e-7);
  EXPECT_NEAR(out[0][0][3].item<double>(), 0.30669281, 1e-7);
}

}  // namespace
}  // namespace posenc
