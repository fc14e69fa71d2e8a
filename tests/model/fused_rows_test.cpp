// The fused operations in float32 against LibTorch's own in float64, which is what they fall back to.
#include "model/fused_rows.h"
#include "model/affine.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "kernels/attention.h"

namespace posenc {
namespace {

Tensor random(torch::IntArrayRef shape, std::uint64_t seed) {
  return torch::empty(shape, torch::kFloat64).normal_(0, 2, torch::make_generator<torch::CPUGeneratorImpl>(seed));
}

using Operation = std::function<Tensor(const std::vector<Tensor>&)>;

/// Output and gradients of a weighted sum of it.
std::vector<Tensor> with_gradients(const Operation& f, const std::vector<Tensor>& at, torch::ScalarType dtype) {
  std::vector<Tensor> inputs;
  for (const Tensor& t : at) inputs.push_back(t.to(dtype).detach().requires_grad_());
  const Tensor y = f(inputs);
  auto all = torch::autograd::grad({(y * random(y.sizes(), 9).to(dtype)).sum()}, inputs);
  all.push_back(y.detach());
  return all;
}

/// On every instruction set, with and without a graph: within 1e-6 of the largest number.
void expect_exact(const Operation& f, const std::vector<Tensor>& at) {
  const auto expected = with_gradients(f, at, torch::kFloat64);
  for (const std::string& target : kernels::simd_targets()) {
    kernels::use_simd_target(target);
    const auto found = with_gradients(f, at, torch::kFloat32);
    for (std::size_t i = 0; i < found.size(); ++i) {
      const double largest = expected[i].abs().max().item<double>();
      EXPECT_LE((found[i].to(torch::kFloat64) - expected[i]).abs().max().item<double>(), 2e-6 * largest) << target << ", " << i;
    }
    const torch::NoGradGuard no_grad;
    std::vector<Tensor> plain;
    for (const Tensor& t : at) plain.push_back(t.to(torch::kFloat32));
    EXPECT_TRUE(torch::equal(f(plain), found.back())) << target;
  }
  kernels::use_simd_target("");
}

TEST(FusedRows, RmsNormIsItsFormula) {
  for (const std::int64_t width : {2, 5, 16, 33, 384}) {
    expect_exact([](const std::vector<Tensor>& in) { return rms_norm(in[0], in[1], 1e-5); },
                 {random({2, 7, width}, 1), random({width}, 2)});
  }
}

TEST(FusedRows, SwiGluIsItsFormula) {
  for (const std::int64_t width : {1, 5, 16, 33}) {
    expect_exact([](const std::vector<Tensor>& in) { return swiglu(in[0], in[1]); },
                 {20 * random({3, width}, 1), random({3, width}, 2)});
  }
}

TEST(FusedRows, LossIsTheLogSoftmaxOfTheTarget) {
  for (const std::int64_t vocab : {2, 5, 16, 33, 256}) {
    const Tensor targets = torch::arange(11) % vocab;
    expect_exact([&](const std::vector<Tensor>& in) { return nll_sum(in[0], targets); }, {3 * random({11, vocab}, 1)});
  }
}

TEST(FusedRows, AffineIsTheProductOfRows) {
  for (const auto& [rows, in, out] : {std::tuple(1, 1, 1), std::tuple(7, 5, 3), std::tuple(64, 33, 130), std::tuple(0, 4, 2)}) {
    const std::vector<Tensor> at = {random({2, rows, in}, 1), random({out, in}, 2), random({out}, 3)};
    if (rows > 0) {
      expect_exact([](const std::vector<Tensor>& t) { return affine(t[0], t[1], t[2]); }, at);
      expect_exact([](const std::vector<Tensor>& t) { return affine(t[0], t[1]); }, {at[0], at[1]});
      expect_exact([](const std::vector<Tensor>& t) { return affine(t[0].transpose(0, 1).slice(2, 0, 1), t[1].slice(1, 0, 1)); },
                   {at[0], at[1]});
    } else {
      EXPECT_EQ(affine(at[0].to(torch::kFloat32), at[1].to(torch::kFloat32)).sizes(), (std::vector<std::int64_t>{2, 0, 2}));
    }
  }
}

TEST(FusedRows, ALargeLogitIsNoOverflow) {
  const Tensor logits = torch::tensor({{1e4, -1e4, 0.0}}).to(torch::kFloat32);
  EXPECT_EQ(nll_sum(logits, torch::tensor({0})).item<float>(), 0);
  EXPECT_EQ(nll_sum(logits, torch::tensor({1})).item<float>(), 2e4f);
}

TEST(FusedRows, NotANumberStaysOne) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(nll_sum(torch::tensor({{nan, 0.0f}}), torch::tensor({1})).isnan().item<bool>());
  EXPECT_TRUE(rms_norm(torch::tensor({{nan, 0.0f}}), torch::ones(2), 1e-5).isnan().any().item<bool>());
}

TEST(FusedRows, StridesDoNotMatter) {
  const Tensor x = random({6, 4}, 1).to(torch::kFloat32);
  EXPECT_TRUE(torch::equal(rms_norm(x.t(), torch::ones(6), 1e-5), rms_norm(x.t().contiguous(), torch::ones(6), 1e-5)));
}

}  // namespace
}  // namespace posenc
