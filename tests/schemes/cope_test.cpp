#include <gtest/gtest.h>

#include "schemes/scheme.h"

namespace posenc {
namespace {

Frame frame_of(std::int64_t tokens, Visibility visible = {}) {
  const Tensor positions = torch::arange(tokens, torch::kFloat64);
  return {{positions}, {positions}, 0, tokens, visible};
}

/// One head of width 4. The vector of position p is f(p)·e_0 and queries are e_0, so that f(p) is what logits gain.
std::shared_ptr<Scheme> counting(const std::string& form, const Tensor& f) {
  auto scheme = make_scheme("cope", {{"max_positions", f.size(0)}, {"form", form}}, {.d_model = 4, .heads = 1, .head_dim = 4});
  scheme->to(torch::kFloat64);
  const torch::NoGradGuard no_grad;
  scheme->named_parameters()["table"].select(1, 0).copy_(f);
  return scheme;
}

std::shared_ptr<Scheme> counting(const std::string& form, std::int64_t rows) {
  return counting(form, torch::arange(rows, torch::kFloat64));
}

/// What logits [Q, K] gain; the scheme sees 0 where a query may not look.
Tensor gained(const Scheme& scheme, const Tensor& logits, const Frame& frame) {
  Tensor q = torch::zeros({1, 1, frame.query_count(), 4}, torch::kFloat64);
  q.select(3, 0).fill_(1);
  const Tensor s = logits.to(torch::kFloat64).masked_fill(frame.unseen(), 0).view({1, 1, logits.size(0), logits.size(1)});
  return (scheme.score(s, {q, q, {}, {}}, frame) - s)[0][0].masked_fill(frame.unseen(), 0);
}

Tensor matrix(const std::vector<double>& values) {
  const auto side = static_cast<std::int64_t>(std::lround(std::sqrt(static_cast<double>(values.size()))));
  return torch::tensor(values, torch::kFloat64).view({side, side});
}

// Gates of logits 0 are 1/2. Were keys in a query's future counted, all rows would read as the last.
TEST(Cope, PositionIsTheSumOfTheGatesFromTheKeyToTheQuery) {
  const torch::NoGradGuard no_grad;
  const Tensor p = gained(*counting("paper", 8), torch::zeros({4, 4}), frame_of(4));
  EXPECT_TRUE(torch::equal(p, matrix({0.5, 0, 0, 0, 1, 0.5, 0, 0, 1.5, 1, 0.5, 0, 2, 1.5, 1, 0.5})));
}

TEST(Cope, TheDividedFormHasThePositionsUnderTheRootToo) {
  const torch::NoGradGuard no_grad;
  const Tensor p = gained(*counting("divided", 8), torch::zeros({2, 2}), frame_of(2));
  EXPECT_TRUE(torch::equal(p, matrix({0.25, 0, 0.5, 0.25})));  // over √4
}

TEST(Cope, LargerSumsShareTheLastPosition) {
  const torch::NoGradGuard no_grad;
  const Tensor p = gained(*counting("paper", 2), torch::zeros({4, 4}), frame_of(4));
  EXPECT_TRUE(torch::equal(p, matrix({0.5, 0, 0, 0, 1, 0.5, 0, 0, 1, 1, 0.5, 0, 1, 1, 1, 0.5})));
}

TEST(Cope, BetweenWholePositionsTheVectorsAreMixedLinearly) {
  const torch::NoGradGuard no_grad;
  const Tensor squares = torch::tensor({0.0, 1.0, 4.0, 9.0}, torch::kFloat64);
  const Tensor z = gained(*counting("paper", squares), torch::zeros({3, 3}), frame_of(3));  // positions 1/2, 1, 3/2
  EXPECT_TRUE(torch::equal(z, matrix({0.5, 0, 0, 1, 0.5, 0, 2.5, 1, 0.5})));
}

TEST(Cope, KeysOutsideTheWindowAreNotCounted) {
  const torch::NoGradGuard no_grad;
  const Tensor p = gained(*counting("paper", 8), torch::zeros({4, 4}), frame_of(4, {.window = 2}));
  EXPECT_TRUE(torch::equal(p, matrix({0.5, 0, 0, 0, 1, 0.5, 0, 0, 0, 1, 0.5, 0, 0, 0, 1, 0.5})));
  const Tensor kept = gained(*counting("paper", 8), torch::zeros({4, 4}), frame_of(4, {.window = 2, .keep_first = 1}));
  EXPECT_TRUE(torch::equal(kept, matrix({0.5, 0, 0, 0, 1, 0.5, 0, 0, 1.5, 1, 0.5, 0, 1.5, 0, 1, 0.5})));
}

TEST(Cope, GatesOfLargeLogitsAreOpenOrShut) {
  const torch::NoGradGuard no_grad;
  const Tensor p = gained(*counting("paper", 8), 1e6 * torch::tensor({{1, 0, 0}, {-1, 1, 0}, {1, -1, 1}}), frame_of(3));
  EXPECT_TRUE(torch::equal(p, matrix({1, 0, 0, 1, 1, 0, 2, 1, 1})));
}

TEST(Cope, GradientsAreFiniteAtWholeAndClampedPositions) {
  const auto scheme = counting("divided", 3);
  for (const double logit : {0.0, 1e6, -1e6}) {
    const Tensor s = torch::full({1, 1, 8, 8}, logit, torch::kFloat64).tril().requires_grad_();
    const Tensor q = torch::ones({1, 1, 8, 4}, torch::kFloat64).requires_grad_();
    scheme->score(s, {q, q, {}, {}}, frame_of(8)).tril().sum().backward();
    for (const Tensor& grad : {s.grad(), q.grad(), scheme->parameters()[0].grad()})
      EXPECT_TRUE(grad.isfinite().all().item<bool>()) << logit;
  }
}

// Positions 1/2 and 1 of logits 0: the gradient of p through the gate is a quarter for each key from j to i, times the slope of
// the table there, 1, and 1 of the logit itself.
TEST(Cope, GatesLearn) {
  const Tensor s = torch::zeros({1, 1, 2, 2}, torch::kFloat64).requires_grad_();
  const Tensor q = torch::ones({1, 1, 2, 4}, torch::kFloat64);
  counting("paper", 8)->score(s, {q, q, {}, {}}, frame_of(2)).tril().sum().backward();
  EXPECT_TRUE(torch::allclose(s.grad()[0][0], matrix({1.25, 0, 1.25, 1.5}), 0, 1e-15)) << s.grad();
}

// A query's positions are the same whether later keys are there or not, and whatever the logits.
TEST(Cope, LaterKeysChangeNothing) {
  const torch::NoGradGuard no_grad;
  const Tensor logits = torch::empty({9, 9}, torch::kFloat64).normal_(0, 2, torch::make_generator<torch::CPUGeneratorImpl>(4));
  const auto scheme = counting("paper", 16);
  const Tensor whole = gained(*scheme, logits, frame_of(9));
  for (std::int64_t n = 1; n < 9; ++n) {
    const Tensor part = gained(*scheme, logits.slice(0, 0, n).slice(1, 0, n), frame_of(n));
    EXPECT_TRUE(torch::equal(part, whole.slice(0, 0, n).slice(1, 0, n))) << n;
  }
}

TEST(Cope, StartsFromATableOfZerosSharedByTheHeads) {
  const auto scheme = make_scheme("cope", Json::object(), {.d_model = 12, .heads = 3, .head_dim = 4});
  scheme->named_parameters()["table"].data().fill_(1);
  scheme->initialise(torch::make_generator<torch::CPUGeneratorImpl>(1));
  EXPECT_TRUE(torch::equal(scheme->named_parameters()["table"], torch::zeros({64, 4})));
}

}  // namespace
}  // namespace posenc
