// FIRE: functional interpolation of the distance by the query's own position. Li et al. 2024 (arXiv:2310.04418):
//   b(i, j) = f(ψ(i − j) / (ψ(max(i, L)) + 10⁻⁶)), ψ(x) = ln(|c|·x + 1), f: 1 → width → H with ReLU; after the 1/√D scale.
// c, L and f learn. L is a learned factor times init_length; the absolute values and 10⁻⁶ are those of the published codes. It
// depends on i as well as on the distance: i counts from 0 by position.
// Departure: f has no output bias. Added to every logit of a head alike, it changes no softmax.
#include <cmath>
#include <limits>
#include <optional>

#include "schemes/info.h"
#ifdef POSENC_TENSORS
#include "schemes/scheme.h"
#endif

namespace posenc {
namespace {

struct FireParameters {
  std::int64_t width = 32;
  double init_c = 0.1;
  std::optional<double> init_length;
  bool zero_init = false;
  bool share_layers = false;
};

}  // namespace

template <>
const Schema<FireParameters>& schema<FireParameters>() {
  static const Schema<FireParameters> table =
      Schema<FireParameters>("fire")
          .field("width", &FireParameters::width, "hidden units of the network")
          .range(1, 1 << 14)
          .field("init_c", &FireParameters::init_c, "the initial c of ln(c*x + 1)")
          .above(0)
          .field("init_length", &FireParameters::init_length,
                 "the initial threshold L, below which distances are divided alike; null: the training length (paper: 512)")
          .above(0)
          .field("zero_init", &FireParameters::zero_init, "start with output weights of zero, as no positions")
          .field("share_layers", &FireParameters::share_layers, "one bias for all layers (FIRE-S), or one for each");
  return table;
}

#ifndef POSENC_TENSORS

SchemeInfo fire_info() {
  SchemeInfo info;
  info.name = "fire";
  info.title = "functional interpolation for relative positions (FIRE)";
  info.paper = "Li et al. 2024, arXiv:2310.04418";
  info.traits = {.real_positions = true, .per_layer = true, .hooks = "bias"};
  info.scale = "after the 1/sqrt(head_dim) scale";
  return scheme_info<FireParameters>(std::move(info));
}

#else

namespace {

constexpr double kEpsilon = 1e-6;

class Fire : public Scheme {
 public:
  Fire(const FireParameters& p, const ModelShape& shape)
      : init_c_(p.init_c),
        init_length_(p.init_length.value_or(static_cast<double>(shape.train_length))),
        zero_init_(p.zero_init) {
    c_ = register_parameter("c", torch::zeros({1}));
    length_factor_ = register_parameter("length_factor", torch::zeros({1}));
    hidden_weight_ = register_parameter("hidden_weight", torch::zeros({p.width}));
    hidden_bias_ = register_parameter("hidden_bias", torch::zeros({p.width}));
    output_weight_ = register_parameter("output_weight", torch::zeros({shape.heads, p.width}));
  }

  bool dense_bias() const override { return true; }

  /// In the precision of the parameters: one number for every pair is much, and shares of at most 1 need no more.
  Tensor bias(const Frame& frame) const override {
    const Tensor share = rise(frame.distances().to(c_.scalar_type())) / reach(frame.queries.values).unsqueeze(1);  // [Q, K]
    return network(share.flatten()).unflatten(1, {share.size(0), share.size(1)});                                  // [H, Q, K]
  }

  bool has_piecewise_bias() const override { return true; }
  PiecewiseBias piecewise_bias(const Frame& frame) const override {
    PiecewiseBias bias = pieces();
    const Tensor steps = torch::arange(frame.key_count(), torch::kFloat64) * frame.queries.spacing;
    bias.by_distance = rise(steps.to(c_.scalar_type()));
    bias.by_query = reach(frame.queries.values).reciprocal();
    return bias;
  }

  /// c and L as configured; the network by torch's rule for linear layers, uniform within ± 1/√inputs.
  void initialise(torch::Generator generator) override {
    torch::NoGradGuard no_grad;
    c_.fill_(init_c_);
    length_factor_.fill_(1);
    hidden_weight_.uniform_(-1, 1, generator);
    hidden_bias_.uniform_(-1, 1, generator);
    const double bound = zero_init_ ? 0 : 1 / std::sqrt(static_cast<double>(hidden_weight_.size(0)));
    output_weight_.uniform_(-bound, bound, generator);
  }

 private:
  Tensor rise(const Tensor& distance) const { return (c_.abs() * distance).log1p(); }

  /// What distances are measured against, of queries at these positions: [Q].
  Tensor reach(const Tensor& positions) const {
    return rise(torch::maximum(positions.to(c_.scalar_type()), (length_factor_ * init_length_).abs())) + kEpsilon;
  }

  /// As a function of one number the network is linear between the kinks of its hidden units, so a table of width + 1 slopes and
  /// intercepts gives its exact values and gradients without the hidden layer's [n, width].
  PiecewiseBias pieces() const {
    const Tensor w = hidden_weight_.to(torch::kFloat64), b = hidden_bias_.to(torch::kFloat64);  // [width]
    const Tensor output = output_weight_.to(torch::kFloat64);                                   // [H, width]
    const Tensor kinks = torch::where(w == 0, std::numeric_limits<double>::infinity(), -b / w).detach();
    const auto [sorted, order] = kinks.sort();
    const Tensor rank = order.argsort();                             // [width]
    const Tensor piece = torch::arange(w.size(0) + 1).unsqueeze(1);  // piece p lies behind p kinks
    const Tensor behind = rank < piece;                              // [width + 1, width]
    const Tensor rising = w > 0;
    const Tensor active = torch::where(w == 0, b > 0, rising == behind).to(torch::kFloat64);    // [width + 1, width]
    return {sorted, output.matmul((active * w).t()), output.matmul((active * b).t()), {}, {}};  // [H, width + 1] each
  }

  /// f of u [n] → [H, n].
  Tensor network(const Tensor& u) const {
    const PiecewiseBias f = pieces();
    const auto dtype = u.scalar_type();
    const Tensor at = torch::searchsorted(f.kinks.to(dtype), u.detach()).expand({f.slopes.size(0), u.size(0)});  // [H, n]
    return torch::addcmul(f.intercepts.to(dtype).gather(1, at), f.slopes.to(dtype).gather(1, at), u);
  }

  Tensor c_, length_factor_;            ///< [1]
  Tensor hidden_weight_, hidden_bias_;  ///< [width]
  Tensor output_weight_;                ///< [H, width]
  double init_c_, init_length_;
  bool zero_init_;
};

}  // namespace

std::shared_ptr<Scheme> make_fire(const Json& parameters, const ModelShape& shape) {
  return std::make_shared<Fire>(from_json<FireParameters>(parameters), shape);
}

#endif

}  // namespace posenc
