#include <gtest/gtest.h>

#include "schemes/scheme.h"

namespace posenc {
namespace {

/// Row p of the table is (p², 10·p).
std::shared_ptr<Scheme> squares(const Json& max_positions, std::int64_t train_length) {
  const auto scheme = make_scheme("learned", {{"max_positions", max_positions}, {"init_std", 0.02}},
                                  {.d_model = 2, .train_length = train_length});
  scheme->to(torch::kFloat64);
  const torch::NoGradGuard no_grad;
  Tensor table = scheme->named_parameters()["table"];
  const Tensor p = torch::arange(table.size(0), torch::kFloat64);
  table.copy_(torch::stack({p * p, p * 10}, 1));
  return scheme;
}

Tensor embedded(const Scheme& scheme, std::vector<double> positions) {
  const Positions at{torch::tensor(positions, torch::kFloat64)};
  return scheme.embed(torch::ones({2, at.values.size(0), 2}, torch::kFloat64), {at, at, 0, 4})[1].detach();
}

Tensor rows(std::vector<double> flat) { return torch::tensor(flat, torch::kFloat64).view({-1, 2}); }

TEST(Learned, AddsTheRowOfThePosition) {
  EXPECT_TRUE(torch::equal(embedded(*squares(nullptr, 4), {0, 1, 3}), rows({1, 1, 2, 11, 10, 31})));
}

TEST(Learned, AFractionMixesTheRowsBelowAndAbove) {
  const auto scheme = squares(nullptr, 4);
  EXPECT_TRUE(torch::allclose(embedded(*scheme, {0.5, 2.25}), rows({1.5, 6, 6.25, 23.5}), 0, 1e-14));
  EXPECT_TRUE(torch::equal(embedded(*scheme, {2.5, 3}), rows({7.5, 26, 10, 31})));  // the last row has none above
}

// Fault 27: a position past the table is never clamped.
TEST(Learned, EndsWhereItsTableEnds) {
  EXPECT_EQ(squares(nullptr, 4)->last_position(), 3);
  EXPECT_EQ(squares(64, 4)->last_position(), 63);
  EXPECT_ANY_THROW(embedded(*squares(nullptr, 4), {4}));
}

TEST(Learned, StartsFromANormalDistributionOfItsOwn) {
  const auto scheme = make_scheme("learned", {{"max_positions", 4096}, {"init_std", 0.02}}, {.d_model = 64, .train_length = 4});
  EXPECT_EQ(scheme->named_parameters()["table"].abs().max().item<double>(), 0);
  scheme->initialise(torch::make_generator<torch::CPUGeneratorImpl>(1));
  EXPECT_NEAR(scheme->named_parameters()["table"].std().item<double>(), 0.02,
              2e-4);  // of 2^18 draws: five times 0.02/sqrt(2·2^18) is 1.4e-4
}

}  // namespace
}  // namespace posenc
