#include <gtest/gtest.h>

#include "schemes/scheme.h"

namespace posenc {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::shared_ptr<Scheme> stick_breaking(const char* remainder) {
  return make_scheme("stick_breaking", {{"remainder", remainder}}, {});
}

Frame frame_of(std::int64_t n) {
  const Positions positions{torch::arange(n, torch::kFloat64), 1};
  return {positions, positions};
}

/// Weights [n, n] of the logits z [n, n], masked as attention does.
Tensor weights(const char* remainder, const Tensor& z, const Frame& frame) {
  return stick_breaking(remainder)->weights(z.masked_fill(frame.unseen(), -kInfinity).view({1, 1, z.size(0), z.size(1)}),
                                            frame)[0][0];
}

// Tan et al. 2024: with every share 1/2 the nearest key takes 1/2, the next 1/4, …
TEST(StickBreaking, ZeroLogitsHalveWhatIsLeft) {
  const Tensor z = torch::zeros({4, 4}, torch::kFloat64);
  const Tensor dropped = torch::tensor(
      {{0.0, 0.0, 0.0, 0.0}, {0.5, 0.0, 0.0, 0.0}, {0.25, 0.5, 0.0, 0.0}, {0.125, 0.25, 0.5, 0.0}}, torch::kFloat64);
  const Tensor kept = torch::tensor(
      {{1.0, 0.0, 0.0, 0.0}, {0.5, 0.5, 0.0, 0.0}, {0.25, 0.5, 0.25, 0.0}, {0.125, 0.25, 0.5, 0.125}}, torch::kFloat64);
  EXPECT_TRUE(torch::allclose(weights("drop", z, frame_of(4)), dropped, 0, 1e-15));
  EXPECT_TRUE(torch::allclose(weights("self", z, frame_of(4)), kept, 0, 1e-15));
}

// Logits ln 3, −ln 3 are shares 3/4 and 1/4. Own logits play no part.
TEST(StickBreaking, EachKeyTakesItsShareOfWhatNearerKeysLeft) {
  const double log3 = 1.0986122886681098;
  const Tensor z = torch::tensor({{99.0, 0.0, 0.0}, {log3, -99.0, 0.0}, {log3, -log3, 99.0}}, torch::kFloat64);
  const Tensor expected =
      torch::tensor({{1.0, 0.0, 0.0}, {0.75, 0.25, 0.0}, {0.5625, 0.25, 0.1875}}, torch::kFloat64);  // 3/4·3/4, 1/4, 1/4·3/4
  EXPECT_TRUE(torch::allclose(weights("self", z, frame_of(3)), expected, 0, 1e-15));
  EXPECT_TRUE(torch::allclose(weights("drop", z, frame_of(3)), expected.tril(-1), 0, 1e-15));
}

TEST(StickBreaking, ABlockOfQueriesGetsItsRowsOfTheWhole) {
  const Tensor z = torch::empty({8, 8}, torch::kFloat64).normal_(0, 2, torch::make_generator<torch::CPUGeneratorImpl>(2));
  for (const char* remainder : {"drop", "self"}) {
    const Tensor whole = weights(remainder, z, frame_of(8));
    Frame block = frame_of(8);
    block.queries = block.queries.slice(3, 6);
    block.keys = block.keys.slice(0, 6);
    block.first_query = 3;
    const Tensor rows = weights(remainder, z.slice(0, 3, 6).slice(1, 0, 6), block);
    EXPECT_TRUE(torch::allclose(rows, whole.slice(0, 3, 6).slice(1, 0, 6), 0, 1e-15)) << remainder;
  }
}

// Query 3 of a window of two sees key 2 alone besides itself.
TEST(StickBreaking, KeysBehindAWindowTakeNothing) {
  Frame frame = frame_of(4);
  frame.visible.window = 2;
  const Tensor found = weights("self", torch::zeros({4, 4}, torch::kFloat64), frame);
  EXPECT_TRUE(torch::equal(found[3], torch::tensor({0.0, 0.0, 0.5, 0.5}, torch::kFloat64)));
  EXPECT_TRUE(torch::equal(found[0], torch::tensor({1.0, 0.0, 0.0, 0.0}, torch::kFloat64)));
}

// 4000 keys of share 1/2: the nearest ones stand next to sums of −2770, where single precision steps by 2e-4.
TEST(StickBreaking, LongRowsKeepTheirNearWeights) {
  Frame last = frame_of(4001);
  last.queries = last.queries.slice(4000, 4001);
  last.first_query = 4000;
  const Tensor row = stick_breaking("drop")->weights(torch::zeros({1, 1, 1, 4001}), last)[0][0][0];
  EXPECT_NEAR(row[3999].item<double>(), 0.5, 1e-7);
  EXPECT_NEAR(row[3990].item<double>(), 0.0009765625, 1e-9);  // 2^-10
  EXPECT_NEAR(row.sum().item<double>(), 1, 1e-6);
}

TEST(StickBreaking, ExtremeLogitsKeepWeightsAndGradientsFinite) {
  for (const char* remainder : {"drop", "self"}) {
    for (const double size : {1e6, -1e6}) {
      Tensor z = torch::full({1, 1, 4, 4}, size).requires_grad_();
      const Frame frame = frame_of(4);
      const Tensor w = stick_breaking(remainder)->weights(z.masked_fill(frame.unseen(), -kInfinity), frame);
      (w * torch::arange(4.0)).sum().backward();
      EXPECT_TRUE(w.isfinite().all().item<bool>());
      EXPECT_TRUE(z.grad().isfinite().all().item<bool>());
      EXPECT_EQ(w[0][0][3][2].item<double>(), size > 0 ? 1 : 0);  // the nearest key takes all, or none takes any
    }
  }
}

}  // namespace
}  // namespace posenc
