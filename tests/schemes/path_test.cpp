#include <gtest/gtest.h>

#include <cmath>

#include "schemes/scheme.h"

namespace posenc {
namespace {

Tensor normal(at::IntArrayRef shape, std::uint64_t seed) {
  return torch::empty(shape, torch::kFloat64).normal_(0, 1, torch::make_generator<torch::CPUGeneratorImpl>(seed));
}

/// PaTH of head width 4 from inputs of width 6, its parameters large.
std::shared_ptr<Scheme> path(std::int64_t heads, std::int64_t kv_heads) {
  const auto scheme = make_scheme("path", {{"rank", 3}}, {.d_model = 6, .heads = heads, .kv_heads = kv_heads, .head_dim = 4});
  scheme->to(torch::kFloat64);
  const torch::NoGradGuard no_grad;
  std::uint64_t seed = 10;
  for (Tensor& p : scheme->parameters()) p.copy_(normal(p.sizes(), seed++));
  return scheme;
}

Frame frame_of(std::int64_t n) {
  const Positions positions{torch::arange(n, torch::kFloat64), 1};
  return {positions, positions};
}

Content content_of(std::int64_t batch, std::int64_t heads, std::int64_t n) {
  return {normal({batch, heads, n, 4}, 1), normal({batch, heads, n, 4}, 2), {}, normal({batch, n, 6}, 3)};
}

/// The scheme's logits [B, H, Q, K], unseen ones 0.
Tensor logits(const Scheme& scheme, const Content& content, const Frame& frame) {
  const Tensor s = torch::matmul(content.q, content.k.transpose(2, 3)) / 2;
  return scheme.score(s, content, frame).masked_fill(frame.unseen(), 0).detach();
}

/// Numbers of a parameter [rows, columns].
struct Matrix {
  explicit Matrix(Tensor t) : values(t.detach().contiguous()), columns(values.size(1)) {}
  double operator()(std::int64_t row, std::int64_t column) const { return values.data_ptr<double>()[row * columns + column]; }
  Tensor values;
  std::int64_t columns;
};

/// One head's logit of query i on key j, by the definition: every reflection between them applied to the key, oldest first.
/// `head` counts key heads.
double sequential(const Scheme& scheme, const Content& c, std::int64_t batch, std::int64_t query_head, std::int64_t head,
                  std::int64_t i, std::int64_t j) {
  auto named = scheme.named_parameters();
  const Matrix down(named["down"]), up(named["up"]), taps(named["convolution"]), beta(named["beta_weight"]), x(c.x[batch]),
      q(c.q[batch][query_head]), k(c.k[batch][query_head]);
  const auto projected = [&](std::int64_t t, std::int64_t out) {
    double sum = 0;
    for (std::int64_t r = 0; r < 3 && t >= 0; ++r) {
      for (std::int64_t a = 0; a < 6; ++a) sum += up(out, r) * down(r, a) * x(t, a);
    }
    return sum;
  };
  const auto sigmoid = [](double z) { return 1 / (1 + std::exp(-z)); };
  double key[4];
  for (int d = 0; d < 4; ++d) key[d] = k(j, d);
  for (std::int64_t t = j + 1; t <= i; ++t) {
    double w[4], square = 1e-6, dot = 0, strength = named["beta_bias"][head].item<double>();
    for (int d = 0; d < 4; ++d) {
      const std::int64_t out = 4 * head + d;
      const double mixed =
          taps(out, 0) * projected(t - 2, out) + taps(out, 1) * projected(t - 1, out) + taps(out, 2) * projected(t, out);
      w[d] = mixed * sigmoid(mixed);
      square += w[d] * w[d];
    }
    for (std::int64_t a = 0; a < 6; ++a) strength += beta(head, a) * x(t, a);
    for (int d = 0; d < 4; ++d) w[d] /= std::sqrt(square), dot += w[d] * key[d];
    for (int d = 0; d < 4; ++d) key[d] -= 2 * sigmoid(strength) * dot * w[d];
  }
  double z = 0;
  for (int d = 0; d < 4; ++d) z += q(i, d) * key[d] / 2;  // 1/√4
  return z;
}

TEST(Path, IsTheProductOfTheReflectionsBetweenKeyAndQuery) {
  const auto scheme = path(4, 2);
  const Content content = content_of(2, 4, 7);
  const Tensor found = logits(*scheme, content, frame_of(7));
  for (std::int64_t b = 0; b < 2; ++b) {
    for (std::int64_t h = 0; h < 4; ++h) {
      for (std::int64_t i = 0; i < 7; ++i) {
        for (std::int64_t j = 0; j <= i; ++j) {
          EXPECT_NEAR(found[b][h][i][j].item<double>(), sequential(*scheme, content, b, h, h / 2, i, j), 1e-12)
              << b << " " << h << " " << i << " " << j;
        }
      }
    }
  }
}

// Runs are 64 tokens: within one, over the border of two, and across a whole one.
TEST(Path, RunsOfTokensJoinToTheSameProduct) {
  const auto scheme = path(1, 1);
  const Content content = content_of(1, 1, 150);
  const Tensor found = logits(*scheme, content, frame_of(150))[0][0];
  for (const auto& [i, j] :
       {std::pair(63, 0), std::pair(64, 63), std::pair(65, 62), std::pair(127, 64), std::pair(128, 63), std::pair(149, 149),
        std::pair(149, 128), std::pair(149, 127), std::pair(149, 100), std::pair(149, 0)}) {
    EXPECT_NEAR(found[i][j].item<double>(), sequential(*scheme, content, 0, 0, 0, i, j), 1e-12) << i << " " << j;
  }
}

TEST(Path, ABlockOfQueriesGetsItsRowsOfTheWhole) {
  const auto scheme = path(2, 1);
  const Content content = content_of(1, 2, 150);
  const Tensor whole = logits(*scheme, content, frame_of(150));
  for (const auto& [begin, end] :
       {std::pair(0, 1), std::pair(10, 50), std::pair(60, 70), std::pair(64, 128), std::pair(130, 150)}) {
    Frame block = frame_of(150);
    block.queries = block.queries.slice(begin, end);
    block.keys = block.keys.slice(0, end);
    block.first_query = begin;
    const Content part{content.q.slice(2, begin, end), content.k.slice(2, 0, end), {}, content.x.slice(1, 0, end)};
    EXPECT_TRUE(torch::allclose(logits(*scheme, part, block), whole.slice(2, begin, end).slice(3, 0, end), 0, 1e-12)) << begin;
  }
}

// β → 0 leaves the keys as they are; β → 2 reflects them, so that a direction met twice is undone.
TEST(Path, WithoutStrengthItIsPlainAttention) {
  const auto scheme = path(2, 2);
  {
    const torch::NoGradGuard no_grad;
    scheme->named_parameters()["beta_weight"].zero_();
    scheme->named_parameters()["beta_bias"].fill_(-800);
  }
  const Content content = content_of(1, 2, 70);
  const Tensor plain = torch::matmul(content.q, content.k.transpose(2, 3)) / 2;
  EXPECT_TRUE(torch::allclose(logits(*scheme, content, frame_of(70)), plain.masked_fill(frame_of(70).unseen(), 0), 0, 1e-13));
}

TEST(Path, FullReflectionsOfOneDirectionUndoEachOther) {
  const auto scheme = path(1, 1);
  {
    const torch::NoGradGuard no_grad;
    scheme->named_parameters()["beta_weight"].zero_();
    scheme->named_parameters()["beta_bias"].fill_(800);
  }
  Content content = content_of(1, 1, 80);
  content.x = content.x.slice(1, 0, 1).expand({1, 80, 6}).contiguous();  // from token 2 on the convolution sees the same three
  const Tensor found = logits(*scheme, content, frame_of(80))[0][0];
  const Tensor plain = torch::matmul(content.q, content.k.transpose(2, 3))[0][0] / 2;
  const double larger_than_eps = 1e-4;  // the norm's 1e-6 keeps w a little below 1
  for (const auto& [i, j] : {std::pair(5, 3), std::pair(79, 77), std::pair(70, 60)})
    EXPECT_NEAR(found[i][j].item<double>(), plain[i][j].item<double>(), larger_than_eps) << i << " " << j;
  EXPECT_GT(std::abs(found[6][5].item<double>() - plain[6][5].item<double>()), 1e-2);
}

TEST(Path, StartsFromTheAuthorsDistributions) {
  const auto scheme = make_scheme("path", Json::object(), {.d_model = 256, .heads = 8, .kv_heads = 8, .head_dim = 32});
  scheme->initialise(torch::make_generator<torch::CPUGeneratorImpl>(1));
  auto named = scheme->named_parameters();
  EXPECT_NEAR(named["down"].std().item<double>(), 0.02, 1e-3);
  EXPECT_NEAR(named["up"].std().item<double>(), 0.02, 1e-3);
  EXPECT_NEAR(named["convolution"].abs().max().item<double>(), 0.57735, 5e-3);  // U(−1/√3, 1/√3), 768 draws
  EXPECT_NEAR(named["convolution"].std().item<double>(), 0.3333, 0.02);
  EXPECT_EQ(named["beta_bias"].abs().max().item<double>(), 0);
}

TEST(Path, GradientsStayFiniteAtInputsOfZero) {
  const auto scheme = path(2, 2);
  Content content = content_of(1, 2, 70);
  content.x = torch::zeros_like(content.x).requires_grad_();
  scheme->score(torch::zeros({1, 2, 70, 70}, torch::kFloat64), content, frame_of(70)).sum().backward();
  EXPECT_TRUE(content.x.grad().isfinite().all().item<bool>());
  for (const Tensor& p : scheme->parameters()) EXPECT_TRUE(!p.grad().defined() || p.grad().isfinite().all().item<bool>());
}

}  // namespace
}  // namespace posenc
