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

const char* const kLayouts[] = {"half_split", "interleaved"};

/// One vector turned to a position, in double.
Tensor turned(const Scheme& scheme, const Tensor& x, double position) {
  return scheme.rotate(x.to(torch::kFloat64).view({1, 1, 1, -1}), {torch::tensor({position}, torch::kFloat64)}).flatten();
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
  const Positions at{torch::tensor({1857.0}, torch::kFloat64)};
  const Tensor single = scheme->rotate(x, at).flatten();
  EXPECT_NEAR(single[1].item<double>(), 0.30669281, 5e-8);
  EXPECT_NEAR(single[17].item<double>(), 0.95180855, 5e-8);
  const Tensor coarse = scheme->rotate(x.to(torch::kBFloat16), at).flatten();
  EXPECT_EQ(coarse.scalar_type(), torch::kBFloat16);
  EXPECT_NEAR(coarse[1].item<double>(), 0.30669281, 1e-3);  // half a unit of bfloat16's eight bits
}

TEST(Rope, EveryHeadAndSequenceTurnsByItsPosition) {
  const Tensor x = torch::rand({2, 3, 4, 8}, torch::kFloat64);
  for (const char* layout : kLayouts) {
    const auto scheme = rope(8, layout);
    const Tensor all = scheme->rotate(x, {torch::tensor({0.0, 7.0, 2.0, 0.25}, torch::kFloat64), 0});
    EXPECT_TRUE(torch::allclose(all[1][2][1], turned(*scheme, x[1][2][1], 7), 0, 1e-15));
    EXPECT_TRUE(torch::allclose(all[0][0][3], turned(*scheme, x[0][0][3], 0.25), 0, 1e-15));
  }
}

}  // namespace
}  // namespace posenc
