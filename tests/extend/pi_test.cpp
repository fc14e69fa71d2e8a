// Position interpolation on each kind of scheme. That it changes nothing up to the training length is for the conformance suite.
#include <gmock/gmock.h>

#include "conformance/conformance.h"

namespace posenc {
namespace {

using ::testing::HasSubstr;

constexpr double kUnlimited = std::numeric_limits<double>::infinity();

Positions count(std::int64_t n) { return {torch::arange(n, torch::kFloat64), 1}; }

Tensor tensor(std::vector<double> values) { return torch::tensor(values, torch::kFloat64); }

TEST(Pi, DividesPositionsByTheFactor) {
  const Positions four = make_extension({{"method", "pi"}, {"factor", 4}})->remap(count(9), {16, 9, kUnlimited});
  EXPECT_TRUE(torch::equal(four.values, tensor({0, 0.25, 0.5, 0.75, 1, 1.25, 1.5, 1.75, 2})));
  EXPECT_EQ(four.spacing, 0.25);
}

TEST(Pi, SqueezesALongWindowIntoTheTrainingLength) {
  const Positions halved = make_extension("pi")->remap(count(8), {4, 8, kUnlimited});
  EXPECT_TRUE(torch::equal(halved.values, tensor({0, 0.5, 1, 1.5, 2, 2.5, 3, 3.5})));
  EXPECT_EQ(halved.spacing, 0.5);
  const Positions corners = make_extension({{"method", "pi"}, {"align", "corners"}})->remap(count(7), {4, 7, kUnlimited});
  EXPECT_TRUE(torch::equal(corners.values, tensor({0, 0.5, 1, 1.5, 2, 2.5, 3})));
  const Positions scale = make_extension({{"method", "pi"}, {"align", "scale"}})->remap(count(8), {4, 8, 3});
  EXPECT_TRUE(torch::equal(scale.values, halved.values));
}

// A table keeps its two ends at every length: a rounded factor took the last position an ulp beyond the table at 30 times 16, 154
// times 128, …
TEST(Pi, NeverLeavesATable) {
  for (const std::int64_t train : {2, 16, 128}) {
    for (std::int64_t window = train + 1; window <= 20 * train; ++window) {
      const Tensor values = make_extension("pi")->remap(count(window), {train, window, static_cast<double>(train - 1)}).values;
      EXPECT_EQ(values[0].item<double>(), 0) << window;
      EXPECT_EQ(values[-1].item<double>(), static_cast<double>(train - 1)) << window << " over " << train;
    }
  }
  const auto pi = make_extension("pi");
  EXPECT_EQ(tiny_model({{"position", "learned"}})->refusal(30, pi.get()), "");
}

TEST(Pi, OnALearnedTableMixesNeighbouringRowsAndKeepsTheEnds) {
  const auto learned =
      make_scheme("learned", {{"max_positions", nullptr}, {"init_std", 0.02}}, {.d_model = 1, .train_length = 4});
  learned->to(torch::kFloat64);
  learned->named_parameters()["table"].data().copy_(tensor({10, 20, 40, 80}).unsqueeze(1));
  const Positions at = make_extension("pi")->remap(count(7), {4, 7, learned->last_position()});
  const Tensor rows = learned->embed(torch::zeros({1, 7, 1}, torch::kFloat64), {at, at, 0, 4}).flatten().detach();
  EXPECT_TRUE(torch::allclose(rows, tensor({10, 15, 20, 30, 40, 60, 80}), 0, 1e-13)) << rows;
}

// A factor too small for the window leaves positions beyond the table, which is refused with both numbers.
TEST(Pi, ATableTooShortForTheFactorIsRefused) {
  const auto model = tiny_model({{"position", "learned"}});
  const auto two = make_extension({{"method", "pi"}, {"factor", 2}});
  EXPECT_EQ(model->refusal(31, two.get()), "");  // position 15
  EXPECT_THAT(model->refusal(32, two.get()),
              HasSubstr("length 32 needs 17 positions, the table has 16"));  // position 15.5 mixes row 16 in
}

// Rotating at p/4 is turning by the angles p·(θ/4): (1, 2, 3, 4) at position 4 comes to where position 1 was.
TEST(Pi, OnRopeDividesTheFrequencies) {
  const auto rope = make_scheme("rope", {{"base", 10000.0}, {"partial", 1.0}, {"layout", "half_split"}}, {.head_dim = 4});
  const Positions at = make_extension({{"method", "pi"}, {"factor", 4}})->remap({tensor({4, 2}), 1}, {16, 64, kUnlimited});
  const Tensor x = tensor({1, 2, 3, 4}).expand({1, 1, 2, 4});
  const Tensor turned = rope->rotate(x, Side::kQuery, {at, at})[0][0];
  EXPECT_TRUE(torch::allclose(turned[0], tensor({-1.9841106, 1.9599007, 2.4623779, 4.0197997}), 0, 5e-8)) << turned;
  // cos 0.5 = 0.87758256, sin 0.5 = 0.47942554, cos 0.005 = 0.9999875, sin 0.005 = 0.00499998
  EXPECT_TRUE(torch::allclose(turned[1], tensor({-0.56069406, 1.97997508, 3.11217322, 4.00994996}), 0, 5e-8)) << turned;
}

// Al-Khateeb et al. 2023: slopes divided by the factor. Four heads: 0.25 and 0.0625 become 0.0625 and 0.015625.
TEST(Pi, OnAlibiDividesTheSlopes) {
  const auto alibi = make_scheme("alibi", {{"slopes", "paper"}, {"bias_max", 8.0}}, {.heads = 4});
  const Positions at = make_extension({{"method", "pi"}, {"factor", 4}})->remap(count(3), {16, 64, kUnlimited});
  const Tensor bias = masked_bias(*alibi, {at, at, 0, 16}, torch::kFloat64);
  EXPECT_TRUE(torch::equal(bias[0][2], tensor({-0.125, -0.0625, 0})));
  EXPECT_TRUE(torch::equal(bias[1][2], tensor({-0.03125, -0.015625, 0})));
}

TEST(Pi, FitsSchemesOfRealPositionsAndSaysWhyNotOthers) {
  const ExtensionInfo* pi = find_registered(extensions(), "linear");
  ASSERT_NE(pi, nullptr);
  EXPECT_EQ(pi->name, "pi");
  for (const char* scheme : {"sinusoidal", "learned", "rope", "alibi"})
    EXPECT_EQ(pi->misfit(*find_registered(schemes(), scheme)), "");
  for (const std::string scheme : {"none", "t5"}) {
    EXPECT_EQ(pi->misfit(*find_registered(schemes(), scheme)),
              "pi needs a scheme that is defined at fractional positions; " + scheme + " is not");
  }
}

TEST(Pi, ItsLabelShowsWhatDiffersFromTheDefaults) {
  const auto label = [](const Json& named) {
    return from_json<EvalConfig>({{"extensions", Json::array({named})}}).extensions[0].label();
  };
  EXPECT_EQ(label("interpolation"), "pi");
  EXPECT_EQ(label({{"method", "pi"}, {"factor", nullptr}, {"align", "auto"}}), "pi");
  EXPECT_EQ(label({{"method", "pi"}, {"factor", 4}}), "pi(factor=4)");
  EXPECT_EQ(label({{"method", "linear"}, {"align", "scale"}}), "pi(align=scale)");
}

}  // namespace
}  // namespace posenc
