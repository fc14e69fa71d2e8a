// PaTH: between key and query lies the product of one data-dependent reflection per token. Yang et al. 2025 (arXiv:2505.16381).
//   z_ij = q_iᵀ·H_i ⋯ H_{j+1}·k_j/√D,  H_t = I − β_t·w_t·w_tᵀ,  β = 2σ(·),  w a low-rank projection of the attention's input x, a
//   causal depthwise convolution, SiLU and L2 norm (the authors' layer; theirs is full rank when key heads are shared)
// The product over a run of c tokens is I − Wᵀ·P·W, P = T⁻¹·diag(β), T = I + diag(β)·strictlower(W·Wᵀ) (UT transform), so that
//   z = lower(Q·Kᵀ) − lower(Q·Wᵀ)·P·strictlower(W·Kᵀ)
// within the run, and Q − lower(Q·Wᵀ)·P·W are the queries of the run before it. Runs of kRun tokens go from the last to the first:
// O(n²·(D + kRun)) operations and no [K, K] matrix beside the logits. Gates count tokens, seen or not. Not here: the forget gate of
// PaTH-FoX.
#include <cmath>

#include "schemes/info.h"
#ifdef POSENC_TENSORS
#include "schemes/scheme.h"
#endif

namespace posenc {
namespace {

struct PathParameters {
  std::int64_t rank = 32;
  std::int64_t convolution = 3;
};

}  // namespace

template <>
const Schema<PathParameters>& schema<PathParameters>() {
  static const Schema<PathParameters> table =
      Schema<PathParameters>("path")
          .field("rank", &PathParameters::rank, "rank of the projection that makes the reflections' directions")
          .range(1, 1 << 16)
          .field("convolution", &PathParameters::convolution, "tokens the causal convolution over the directions spans")
          .range(1, 64);
  return table;
}

#ifndef POSENC_TENSORS

SchemeInfo path_info() {
  SchemeInfo info;
  info.name = "path";
  info.title = "accumulated Householder reflections (PaTH)";
  info.paper = "Yang et al. 2025, arXiv:2505.16381";
  info.traits = {.relative = true, .per_layer = true, .content_dependent = true, .hooks = "score"};
  return scheme_info<PathParameters>(std::move(info));
}

#else

namespace {

constexpr std::int64_t kRun = 64;

class Path : public Scheme {
 public:
  Path(const PathParameters& p, const ModelShape& shape) : shape_(shape) {
    const std::int64_t width = shape.kv_heads * shape.head_dim;
    down_ = register_parameter("down", torch::zeros({p.rank, shape.d_model}));
    up_ = register_parameter("up", torch::zeros({width, p.rank}));
    convolution_ = register_parameter("convolution", torch::zeros({width, p.convolution}));
    beta_weight_ = register_parameter("beta_weight", torch::zeros({shape.kv_heads, shape.d_model}));
    beta_bias_ = register_parameter("beta_bias", torch::zeros({shape.kv_heads}));
  }

  /// Replaces s, which has no bias in it.
  Tensor score(const Tensor& s, const Content& content, const Frame& frame) const override {
    const std::int64_t rows = s.size(2), keys = s.size(3);
    const Tensor w = directions(content.x), beta = strengths(content.x);       // [B, H, K, D], [B, H, K, 1]
    Tensor q = content.q / std::sqrt(static_cast<double>(content.q.size(3)));  // [B, H, Q, D]
    std::vector<Tensor> columns;                                               // the last run first
    for (std::int64_t begin = (keys - 1) / kRun * kRun; begin >= 0; begin -= kRun) {
      const std::int64_t end = std::min(begin + kRun, keys);
      const std::int64_t first = std::clamp<std::int64_t>(begin - frame.first_query, 0, rows);  // row that sees this run
      const Tensor queries = q.slice(2, first), k = content.k.slice(2, begin, end), run = w.slice(2, begin, end),
                   b = beta.slice(2, begin, end);
      const Tensor sides = torch::cat({torch::matmul(run, k.transpose(2, 3)).tril(-1), run}, 3);  // [B, H, c, c + D]
      const Tensor solved = torch::linalg_solve_triangular(b * torch::matmul(run, run.transpose(2, 3)).tril(-1), b * sides,
                                                           /*upper=*/false, /*left=*/true, /*unitriangular=*/true);
      const Tensor seen = torch::matmul(queries, run.transpose(2, 3)).tril(frame.first_query + first - begin);
      const Tensor change = torch::matmul(seen, solved);  // [B, H, rows, c + D]
      const Tensor z = torch::matmul(queries, k.transpose(2, 3)) - change.slice(3, 0, end - begin);
      columns.push_back(torch::constant_pad_nd(z, {0, 0, first, 0}));
      q = torch::cat({q.slice(2, 0, first), queries - change.slice(3, end - begin)}, 2);
    }
    std::reverse(columns.begin(), columns.end());
    return torch::cat(columns, 3);  // [B, H, Q, K]
  }

  /// The authors' layer: N(0, 0.02), no bias (β = 1), and the usual U(±1/√taps) of a convolution.
  void initialise(torch::Generator generator) override {
    const torch::NoGradGuard no_grad;
    for (Tensor* weight : {&down_, &up_, &beta_weight_}) weight->normal_(0, 0.02, generator);
    const double bound = 1 / std::sqrt(static_cast<double>(convolution_.size(1)));
    convolution_.uniform_(-bound, bound, generator);
    beta_bias_.zero_();
  }

 private:
  /// [B, K, Hkv·n] → [B, H, K, n]
  Tensor by_head(const Tensor& x) const {
    return x.unflatten(2, {shape_.kv_heads, x.size(2) / shape_.kv_heads})
        .transpose(1, 2)
        .repeat_interleave(shape_.heads / shape_.kv_heads, 1);
  }

  Tensor directions(const Tensor& x) const {
    const std::int64_t keys = x.size(1), taps = convolution_.size(1);
    const Tensor padded =
        torch::constant_pad_nd(torch::linear(torch::linear(x, down_), up_), {0, 0, taps - 1, 0});  // [B, taps − 1 + K, Hkv·D]
    Tensor mixed = padded.slice(1, 0, keys) * convolution_.select(1, 0);
    for (std::int64_t tap = 1; tap < taps; ++tap) mixed = mixed + padded.slice(1, tap, tap + keys) * convolution_.select(1, tap);
    const Tensor w = by_head(torch::silu(mixed));
    return w * torch::rsqrt(w.square().sum(-1, true) + 1e-6);
  }

  Tensor strengths(const Tensor& x) const { return 2 * by_head(torch::sigmoid(torch::linear(x, beta_weight_, beta_bias_))); }

  ModelShape shape_;
  Tensor down_, up_;                ///< [rank, C], [Hkv·D, rank]
  Tensor convolution_;              ///< [Hkv·D, taps], the last tap the token itself
  Tensor beta_weight_, beta_bias_;  ///< [Hkv, C], [Hkv]
};

}  // namespace

std::shared_ptr<Scheme> make_path(const Json& parameters, const ModelShape& shape) {
  return std::make_shared<Path>(from_json<PathParameters>(parameters), shape);
}

#endif

}  // namespace posenc
