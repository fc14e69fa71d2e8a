// Extensions that change the frequencies of rotary schemes. Their numbers against peers' code are goldens (rope_inv_freq*.json);
// here are those of the papers, worked out by hand, and what users may get wrong.
#include <gmock/gmock.h>

#include "conformance/conformance.h"
#include "core/error.h"
#include "schemes/rope.h"

namespace posenc {
namespace {

using ::testing::HasSubstr;

constexpr double kUnlimited = std::numeric_limits<double>::infinity();

Frequencies trained(std::int64_t width, double base = 10000) {
  return {torch::tensor(rope_inv_freq(width, base), torch::kFloat64), base};
}

Frequencies scaled(const Json& named, const Frequencies& by, std::int64_t train, std::int64_t window) {
  return make_extension(named)->frequencies(by, {train, window, kUnlimited});
}

void expect_near(const Tensor& got, const std::vector<double>& want, double relative = 1e-6) {
  const Tensor wanted = torch::tensor(want, torch::kFloat64);
  EXPECT_TRUE(torch::allclose(got.slice(0, 0, wanted.size(0)), wanted, relative, 0)) << got;
}

// R = 8, s = 4: the base becomes 63496.0421; divisors 1, 1.5874, 2.5198, 4.
TEST(Ntk, DividesTheLowestFrequencyByTheFactorAndKeepsTheHighest) {
  expect_near(scaled({{"method", "ntk"}, {"factor", 4}}, trained(8), 512, 1).inv_freq, {1, 0.06299605, 0.00396850, 0.00025});
  expect_near(scaled("ntk", trained(8), 512, 2048).inv_freq, {1, 0.06299605, 0.00396850, 0.00025});
  EXPECT_THROW(scaled("ntk", trained(2), 512, 1024), ConfigError);
}

// a = ln 4 / 4^0.75: divisors exp(a·(k+1)^0.75), the last of them 4.
TEST(NtkMixed, DividesEveryFrequencyAndTheLowestByTheFactor) {
  expect_near(scaled({{"method", "ntk_mixed"}, {"factor", 4}}, trained(8), 512, 1).inv_freq,
              {0.6125473, 0.0438544, 0.00327177, 0.00025}, 1e-5);
}

// R = 64, L = 512: the base that NTK comes to at each length.
TEST(DynamicNtk, GrowsTheBaseWithTheLengthAndNotBelowTheTrainingLength) {
  const auto base = [](double factor, std::int64_t length) {
    const Tensor f = scaled({{"method", "dynamic_ntk"}, {"factor", factor}}, trained(64), 512, length).inv_freq;
    return std::pow(f[1].item<double>(), -32);
  };
  EXPECT_NEAR(base(1, 512), 10000, 1e-6);
  EXPECT_NEAR(base(1, 1024), 20452.23, 0.01);
  EXPECT_NEAR(base(1, 2048), 41829.37, 0.01);
  EXPECT_NEAR(base(2, 1024), 31082.24, 0.01);
  EXPECT_NEAR(base(2, 2048), 74534.83, 0.01);
}

// A token's frequencies under per_step are those of a window that ends with it.
TEST(DynamicNtk, PerStepGivesEveryTokenTheWindowThatEndsWithIt) {
  const auto model = tiny_model({{"position", "rope"}});
  const auto per_step = make_extension({{"method", "dynamic_ntk"}, {"mode", "per_step"}}),
             per_window = make_extension("dynamic_ntk");
  const Tensor tokens = random_tokens(1, 40);
  Pass pass;
  pass.extension = per_step.get();
  // One layer would do for equality of a row; with two, every token's keys come from rows of their own windows.
  const auto one_layer = tiny_model({{"position", "rope"}, {"layers", 1}});
  const Tensor steps = logits_of(*one_layer, tokens, pass);
  pass.extension = per_window.get();
  for (const std::int64_t length : {16, 17, 29, 40}) {
    const Tensor window = logits_of(*one_layer, tokens.slice(1, 0, length), pass);
    EXPECT_TRUE(torch::allclose(steps.select(1, length - 1), window.select(1, length - 1), 1e-5, 1e-5)) << length;
  }
  EXPECT_FALSE(torch::allclose(steps.select(1, 20), logits_of(*one_layer, tokens, pass).select(1, 20), 1e-3, 1e-3));
}

// R = 8, L = 512, s = 4: the code's ramp falls from pair 0 to pair 2; the paper's follows the turns 81.49, 8.149, 0.8149, 0.0815.
TEST(NtkParts, TheRampOfTheCodeAndThatOfThePaperDiffer) {
  expect_near(scaled({{"method", "ntk_parts"}, {"factor", 4}}, trained(8), 512, 1).inv_freq, {1, 0.0625, 0.0025, 0.00025});
  // γ(8.1487331) = 7.1487331/31 = 0.2306043: 0.1·(0.25 + 0.75·0.2306043)
  expect_near(scaled({{"method", "ntk_parts"}, {"factor", 4}, {"ramp", "paper"}}, trained(8), 512, 1).inv_freq,
              {1, 0.0422953, 0.0025, 0.00025});
}

TEST(Yarn, IsThatOfTheAuthorsCode) {
  const Frequencies eight = scaled({{"method", "yarn"}, {"factor", 4}}, trained(8), 512, 1);
  expect_near(eight.inv_freq, {1, 0.0625, 0.0025, 0.00025});
  EXPECT_NEAR(eight.magnitude, 1.138629, 1e-6);
  expect_near(scaled({{"method", "yarn"}, {"factor", 4}}, trained(16), 256, 1).inv_freq,
              {1, 0.256935, 0.0625, 0.013835, 0.0025, 0.000790569, 0.00025, 0.0000790569}, 3e-6);
  EXPECT_NEAR(scaled({{"method", "yarn"}, {"factor", 16}}, trained(128), 4096, 1).magnitude, 1.277259, 1e-6);
}

// A factor that is declared counts at every length; one that is not follows the window.
TEST(Yarn, AConfiguredFactorCountsWithinTheTrainingLengthToo) {
  EXPECT_FALSE(torch::equal(scaled({{"method", "yarn"}, {"factor", 4}}, trained(8), 512, 100).inv_freq, trained(8).inv_freq));
  EXPECT_TRUE(torch::equal(scaled("yarn", trained(8), 512, 512).inv_freq, trained(8).inv_freq));
  EXPECT_NEAR(scaled("yarn", trained(8), 512, 2048).magnitude, 1.138629, 1e-6);
}

TEST(LongRope, HasTheMagnitudesOfThePaper) {
  const Json ones = {1, 1, 1, 1};
  for (const auto& [factor, want] : {std::pair(2.0, 1.054093), std::pair(4.0, 1.105542), std::pair(8.0, 1.154701)}) {
    const Json named = {{"method", "longrope"}, {"long_factor", ones}, {"factor", factor}};
    EXPECT_NEAR(scaled(named, trained(8), 512, 1024).magnitude, want, 1e-6);
  }
}

TEST(LongRope, TakesTheShortFactorsWithinTheTrainingLength) {
  const Json named = {{"method", "longrope"}, {"long_factor", {1, 2, 4, 8}}, {"short_factor", {1, 1, 1, 2}}};
  expect_near(scaled(named, trained(8), 512, 512).inv_freq, {1, 0.1, 0.01, 0.0005}, 1e-12);
  expect_near(scaled(named, trained(8), 512, 513).inv_freq, {1, 0.05, 0.0025, 0.000125}, 1e-12);
}

TEST(LongRope, LeavesTheFirstPositionsAsTheyWereTrained) {
  const Json named = {{"method", "longrope"}, {"long_factor", {1, 2, 4, 8}}, {"unscaled", 2}};
  const Tensor positions = torch::tensor({0.0, 1.0, 2.0, 3.0}, torch::kFloat64);
  const Tensor angles = scaled(named, trained(8), 512, 1024).angles(positions);
  expect_near(angles[1], {1, 0.1, 0.01, 0.001}, 1e-12);
  expect_near(angles[2], {2, 0.1, 0.005, 0.00025}, 1e-12);
  expect_near(scaled(named, trained(8), 512, 512).angles(positions)[2], {2, 0.2, 0.02, 0.002}, 1e-12);
}

TEST(LongRope, RefusesFactorsThatAreNotOneAPair) {
  try {
    scaled({{"method", "longrope"}, {"long_factor", {1, 2, 3}}}, trained(8), 512, 1024);
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("long_factor has 3 numbers, the model turns 4 pairs"));
  }
}

// R = 128, base 500000, L = 8192, s = 8 (Llama 3.1): pair 28 is kept, 29 to 34 are mixed, 35 on are divided.
TEST(Llama3, KeepsShortWavelengthsAndDividesLongOnes) {
  const Tensor f = scaled({{"method", "llama3"}, {"factor", 8}}, trained(128, 500000), 8192, 1).inv_freq;
  for (const auto& [pair, want] : {std::pair(28, .003211446), std::pair(29, .00216657), std::pair(31, .000856751),
                                   std::pair(34, .000178508), std::pair(35, 9.556212e-5)})
    EXPECT_NEAR(f[pair].item<double>(), want, 2e-6 * want) << pair;
  expect_near(scaled({{"method", "llama3"}, {"factor", 8}}, trained(16), 256, 1).inv_freq.slice(0, 3), {0.00661311}, 2e-6);
}

TEST(Frequencies, AtFactorOneNoBitChanges) {
  const Frequencies before = trained(16);
  for (const Json& named : {Json{{"method", "ntk"}, {"factor", 1}}, Json{{"method", "ntk_mixed"}, {"factor", 1}},
                            Json{{"method", "ntk_parts"}, {"factor", 1}}, Json{{"method", "yarn"}, {"factor", 1}},
                            Json{{"method", "yarn"}, {"factor", 1}, {"mscale", 1}, {"mscale_all_dim", 0.7}},
                            Json{{"method", "llama3"}, {"factor", 1}},
                            Json{{"method", "longrope"}, {"long_factor", std::vector<double>(8, 1.0)}, {"factor", 1}}}) {
    const Frequencies after = scaled(named, before, 16, 64);
    EXPECT_TRUE(torch::equal(after.inv_freq, before.inv_freq)) << named;
    EXPECT_EQ(after.magnitude, 1) << named;
  }
}

TEST(Frequencies, AWrongParameterIsAConfigError) {
  for (const Json& named :
       {Json{{"method", "yarn"}, {"mscale", 1}}, Json{{"method", "yarn"}, {"beta_fast", 1}, {"beta_slow", 2}},
        Json{{"method", "ntk"}, {"factor", 0.5}}, Json("longrope"), Json{{"method", "longrope"}, {"long_factor", {1, 0}}},
        Json{{"method", "llama3"}, {"high_freq_factor", 1}}})
    EXPECT_THROW(make_extension(named), ConfigError) << named;
}

// Every rotary scheme takes them, no other does.
TEST(Frequencies, FitRotarySchemesOnly) {
  for (const char* method : {"ntk", "ntk_mixed", "dynamic_ntk", "ntk_parts", "yarn", "longrope", "llama3"}) {
    const ExtensionInfo& info = *find_registered(extensions(), method);
    for (const char* scheme : {"rope", "xpos"}) EXPECT_EQ(info.misfit(*find_registered(schemes(), scheme)), "") << method;
    for (const char* scheme : {"none", "sinusoidal", "alibi", "t5"})
      EXPECT_THAT(info.misfit(*find_registered(schemes(), scheme)), HasSubstr("rotary")) << method << " on " << scheme;
  }
}

}  // namespace
}  // namespace posenc
