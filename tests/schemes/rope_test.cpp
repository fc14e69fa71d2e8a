#include "schemes/rope.h"

#include <gmock/gmock.h>

#include "schemes/scheme.h"

namespace posenc {
namespace {

using ::testing::DoubleNear;
using ::testing::Pointwise;

std::shared_ptr<Scheme> rope(std::int64_t head_dim, const std::string& layout, double partial = 1) {
  return make_scheme("rope", {{"base", 10000.0}, {"partial", partial}, {"layout", layout}}, {.head_dim = head_dim});
}

/// A frame of these positions on both sides.
Frame at(const std::vector<double>& positions) {
  const Positions values{torch::tensor(positions, torch::kFloat64), 0};
  return {values, values};
}

const char* const kLayouts[] = {"half_split", "interleaved"};

/// One vector turned to a position, in double.
Tensor turned(const Scheme& scheme, const Tensor& x, double position) {
  return scheme.rotate(x.to(torch::kFloat64).view({1, 1, 1, -1}), Side::kQuery, at({position})).flatten();
}

void expect_vector(const Tensor& found, const std::vector<double>& expected, double tolerance) {
  const Tensor flat = found.to(torch::kFloat64).contiguous();
  EXPECT_THAT(std::vector<double>(flat.data_ptr<double>(), flat.data_ptr<double>() + flat.numel()),
              Pointwise(DoubleNear(tolerance), expected));
}

// Su et al. 2021, eq. 15.
TEST(RopeFrequencies, ArePowersOfTheBase) {
  EXPECT_THAT(rope_inv_freq(8, 10000), Pointwise(DoubleNear(1e-15), {1.0, 0.1, 0.01, 0.001}));
  EXPECT_THAT(rope_inv_freq(8, 500000), Pointwise(DoubleNear(5e-9), {1.0, 0.03760603, 0.00141421, 5.318296e-5}));
  EXPECT_THAT(rope_inv_freq(2, 10000), Pointwise(DoubleNear(0), {1.0}));
}

// Barbero et al. 2024: the exponents are those of the whole width, where `partial` would have given 1, 0.01.
TEST(RopeFrequencies, OfPRopeAreTheHighestOnes) {
  EXPECT_THAT(rope_inv_freq(8, 10000, 0.5), Pointwise(DoubleNear(1e-15), {1.0, 0.1, 0.0, 0.0}));
  EXPECT_THAT(rope_inv_freq(8, 10000, 0.75), Pointwise(DoubleNear(1e-15), {1.0, 0.1, 0.01, 0.0}));
  EXPECT_THAT(rope_inv_freq(8, 10000, 0.7), Pointwise(DoubleNear(1e-15), {1.0, 0.1, 0.0, 0.0}));  // 2.8 of 4: two whole ones
  EXPECT_THAT(rope_inv_freq(8, 10000, 0), Pointwise(DoubleNear(0), {0.0, 0.0, 0.0, 0.0}));
  EXPECT_EQ(rope_inv_freq(8, 10000, 1), rope_inv_freq(8, 10000));
}

// Fault 8.
TEST(Rope, TurnsThePairsOfItsLayout) {
  const Tensor x = torch::tensor({1.0, 2.0, 3.0, 4.0});
  expect_vector(turned(*rope(4, "half_split"), x, 1), {-1.9841106, 1.9599007, 2.4623779, 4.0197997}, 5e-8);
  expect_vector(turned(*rope(4, "interleaved"), x, 1), {-1.1426397, 1.9220756, 2.9598507, 4.0297995}, 5e-8);
}

TEST(Rope, PositionZeroIsTheIdentityAndNormsNeverChange) {
  const Tensor x = torch::rand({8}, torch::kFloat64);
  for (const char* layout : kLayouts) {
    EXPECT_TRUE(torch::equal(turned(*rope(8, layout), x, 0), x));
    for (const double p : {1.0, 0.5, 123456.0})
      EXPECT_NEAR(turned(*rope(8, layout), x, p).norm().item<double>(), x.norm().item<double>(), 1e-14);
  }
}

// Fault 6: exponent and pairing follow the rotary width 4, not the head's 8; dims 4 to 7 stay as they are.
TEST(Rope, APartialRotationHasAWidthOfItsOwn) {
  const Tensor x = torch::arange(1, 9, torch::kFloat64);
  expect_vector(turned(*rope(8, "half_split", 0.5), x, 1), {-1.9841106, 1.9599007, 2.4623779, 4.0197997, 5, 6, 7, 8}, 5e-8);
  expect_vector(turned(*rope(8, "interleaved", 0.5), x, 1), {-1.1426397, 1.9220756, 2.9598507, 4.0297995, 5, 6, 7, 8}, 5e-8);
  for (const char* layout : kLayouts) EXPECT_TRUE(torch::equal(turned(*rope(8, layout, 0.5), x, 777).slice(0, 4), x.slice(0, 4)));
}

// Fault 9: with angles paired one way and dims another, the score would depend on more than the distance.
TEST(Rope, AScoreDependsOnTheDistanceAlone) {
  const auto generator = torch::make_generator<torch::CPUGeneratorImpl>(5);
  const Tensor q = torch::empty({8}, torch::kFloat64).normal_(0, 1, generator),
               k = torch::empty({8}, torch::kFloat64).normal_(0, 1, generator);
  for (const char* layout : kLayouts) {
    const auto scheme = rope(8, layout);
    const auto score = [&](double i, double j) {
      return torch::dot(turned(*scheme, q, i), turned(*scheme, k, j)).item<double>();
    };
    EXPECT_NEAR(score(5, 3), score(105, 103), 1e-12);
    EXPECT_NEAR(score(5, 3), score(300005, 300003), 1e-9);  // fault 26; a position of 3e5 is exact to 6e-11
    EXPECT_GT(std::abs(score(5, 3) - score(5, 4)), 1e-3);
  }
}

// q = k = (1, 0, 1, 0): cos(d) + cos(d/100).
TEST(Rope, ScoresFallWithDistanceAsTheCosinesSay) {
  const Tensor q = torch::tensor({1.0, 0.0, 1.0, 0.0});
  const auto scheme = rope(4, "interleaved");
  const auto score = [&](double d) { return torch::dot(turned(*scheme, q, d), turned(*scheme, q, 0)).item<double>(); };
  EXPECT_NEAR(score(1), 1.540252, 5e-7);
  EXPECT_NEAR(score(2), 0.583653, 5e-7);
  EXPECT_NEAR(score(10), 0.155933, 5e-7);
}

// Fault 22: the angle of feature 1 at position 1857 and width 32 is 1044.2678, cosine 0.30669281; rounded to half precision it
// was off by up to 0.78.
TEST(Rope, AnglesAreFormedInDoubleWhateverTheModelIsCastTo) {
  const auto scheme = rope(32, "half_split");
  scheme->to(torch::kBFloat16);
  Tensor x = torch::zeros({1, 1, 1, 32});
  x.select(3, 1).fill_(1);
  const Tensor single = scheme->rotate(x, Side::kKey, at({1857})).flatten();
  EXPECT_NEAR(single[1].item<double>(), 0.30669281, 5e-8);
  EXPECT_NEAR(single[17].item<double>(), 0.95180855, 5e-8);
  const Tensor coarse = scheme->rotate(x.to(torch::kBFloat16), Side::kKey, at({1857})).flatten();
  EXPECT_EQ(coarse.scalar_type(), torch::kBFloat16);
  EXPECT_NEAR(coarse[1].item<double>(), 0.30669281, 1e-3);  // half a unit of bfloat16's eight bits
}

TEST(Rope, EveryHeadAndSequenceTurnsByItsPosition) {
  const Tensor x = torch::rand({2, 3, 4, 8}, torch::kFloat64);
  for (const char* layout : kLayouts) {
    const auto scheme = rope(8, layout);
    const Tensor all = scheme->rotate(x, Side::kQuery, at({0, 7, 2, 0.25}));
    EXPECT_TRUE(torch::allclose(all[1][2][1], turned(*scheme, x[1][2][1], 7), 0, 1e-15));
    EXPECT_TRUE(torch::allclose(all[0][0][3], turned(*scheme, x[0][0][3], 0.25), 0, 1e-15));
  }
}

std::shared_ptr<Scheme> variant(const Json& parameters, const std::string& layout) {
  Json all = parameters;
  all["layout"] = layout;
  return make_scheme("rope", all, {.head_dim = 8});
}

// Pairs (2, 6) and (3, 7) or (4, 5) and (6, 7) see no position.
TEST(Rope, PRopeTurnsOnlyThePairsItKeeps) {
  const Tensor x = torch::arange(1, 9, torch::kFloat64);
  const double c = 0.5403023058681398, s = 0.8414709848078965, c1 = 0.9950041652780258, s1 = 0.09983341664682815;
  expect_vector(turned(*variant({{"proportional", 0.5}}, "half_split"), x, 1),
                {c - 5 * s, 2 * c1 - 6 * s1, 3, 4, s + 5 * c, 2 * s1 + 6 * c1, 7, 8}, 1e-14);
  expect_vector(turned(*variant({{"proportional", 0.5}}, "interleaved"), x, 1),
                {c - 2 * s, s + 2 * c, 3 * c1 - 4 * s1, 3 * s1 + 4 * c1, 5, 6, 7, 8}, 1e-14);
}

TEST(Rope, PRopeOfEveryFrequencyIsRopeAndOfNoneChangesNothing) {
  const Tensor x = torch::rand({2, 3, 4, 8});
  const Frame frame = at({0, 7, 2000, 0.25});
  for (const char* layout : kLayouts) {
    EXPECT_TRUE(torch::equal(variant({{"proportional", 1}}, layout)->rotate(x, Side::kQuery, frame),
                             rope(8, layout)->rotate(x, Side::kQuery, frame)));
    EXPECT_TRUE(torch::equal(variant({{"proportional", 0}}, layout)->rotate(x, Side::kKey, frame), x));
  }
}

TEST(Rope, LearnedFrequenciesStartFromTheUsualOnes) {
  const Tensor x = torch::rand({2, 3, 4, 8}, torch::kFloat64);
  const Frame frame = at({0, 7, 2, 0.25});
  for (const char* layout : kLayouts) {
    for (const double partial : {1.0, 0.5}) {
      const auto scheme = variant({{"learned", true}, {"partial", partial}}, layout);
      scheme->to(torch::kFloat64);
      scheme->initialise(torch::make_generator<torch::CPUGeneratorImpl>(1));
      ASSERT_EQ(scheme->parameters().size(), 1u);
      EXPECT_TRUE(torch::allclose(scheme->rotate(x, Side::kQuery, frame).detach(),
                                  rope(8, layout, partial)->rotate(x, Side::kQuery, frame), 0, 1e-14));
    }
  }
}

// d/dθ of (cos(3θ), sin(3θ)) · (2, 5) at θ = 0 is 15; of the unturned pair's angle nothing.
TEST(Rope, LearnedFrequenciesGetTheirGradientThroughTheAngles) {
  for (const char* layout : kLayouts) {
    const auto scheme = make_scheme("rope", {{"learned", true}, {"layout", layout}}, {.head_dim = 4});
    const bool interleaved = std::string(layout) == "interleaved";
    const Tensor x = torch::tensor({1.0, 0.0, 0.0, 0.0}).view({1, 1, 1, 4});
    const Tensor y = scheme->rotate(x, Side::kQuery, at({3})).flatten();
    (2 * y[0] + 5 * y[interleaved ? 1 : 2]).backward();
    EXPECT_TRUE(torch::equal(scheme->parameters()[0].grad(), torch::tensor({15.0, 0.0})));
  }
}

// The gradient of the fixed turn is the turn back: of g at angle pθ by −pθ.
TEST(Rope, TheGradientOfATurnIsTheTurnBack) {
  const Tensor g = torch::tensor({1.0, 2.0, 3.0, 4.0}).view({1, 1, 1, 4});
  for (const char* layout : kLayouts) {
    Tensor x = torch::zeros({1, 1, 1, 4}).requires_grad_();
    rope(4, layout)->rotate(x, Side::kKey, at({1})).backward(g);
    EXPECT_TRUE(torch::allclose(x.grad(), rope(4, layout)->rotate(g, Side::kKey, at({-1})), 0, 1e-6));
  }
}

}  // namespace
}  // namespace posenc
