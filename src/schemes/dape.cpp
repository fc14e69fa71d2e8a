// Data-adaptive positional encoding: a small network sees, at each query and key, the logits A and the bias B of a base scheme in
// all heads, and corrects their sum. Zheng et al. 2024 (arXiv:2405.14722); v2 (arXiv:2410.04798): convolutions along the keys.
//   s = A + B + f([A; B]),   f = Linear(2H → hidden), LeakyReLU(0.01), Linear(hidden → H); v2: 1×kernel convolutions
// v2's input is 0 where the query may not look. Departures: f has no output bias, which would add the same to all logits of a
// head and change no softmax. At the last key of the sequence the authors' second convolution finds zeros, at the last key of any
// earlier query the first one's answer to zeros, so that one more token changes weights before it; here it always finds the latter.
#include <cmath>

#include "schemes/info.h"
#include "schemes/inner.h"
#ifdef POSENC_TENSORS
#include "schemes/diagonals.h"
#endif

namespace posenc {
namespace {

struct DapeParameters {
  BiasScheme over{{"kerple_log"}};
  std::int64_t hidden = 32;
  bool share_layers = false;
};

struct DapeV2Parameters {
  BiasScheme over{{"kerple_log"}};
  std::int64_t hidden = 32;
  std::int64_t kernel = 3;
  bool share_layers = false;
};

/// The fields both have.
template <class Parameters>
Schema<Parameters> common_fields(const std::string& title) {
  return Schema<Parameters>(title)
      .field("over", &Parameters::over, "the scheme whose bias is corrected")
      .field("hidden", &Parameters::hidden, "width of the network")
      .range(1, 4096)
      .field("share_layers", &Parameters::share_layers, "one network and bias for all layers, or one for each");
}

}  // namespace

template <>
const Schema<DapeParameters>& schema<DapeParameters>() {
  static const Schema<DapeParameters> table = common_fields<DapeParameters>("dape");
  return table;
}

template <>
const Schema<DapeV2Parameters>& schema<DapeV2Parameters>() {
  static const Schema<DapeV2Parameters> table =
      common_fields<DapeV2Parameters>("dape_v2")
          .field("kernel", &DapeV2Parameters::kernel, "keys each convolution sees")
          .range(1, 63)
          .check([](const DapeV2Parameters& p, const Reader& r) {
            if (p.kernel % 2 == 0) r.problem("kernel", std::to_string(p.kernel) + " is even; a kernel has a middle");
          });
  return table;
}

#ifndef POSENC_TENSORS

namespace {

template <class Parameters>
void check(const Parameters& p, const ModelShape& shape, const Reader& reader) {
  p.over.check(shape, reader.at("over"));
}

SchemeInfo info_of(const std::string& name, const std::string& title, const std::string& paper) {
  SchemeInfo info;
  info.name = name;
  info.title = title;
  info.paper = paper;
  info.traits = {.relative = true, .real_positions = true, .per_layer = true, .content_dependent = true, .hooks = "score"};
  return info;
}

}  // namespace

SchemeInfo dape_info() {
  SchemeInfo info = info_of("dape", "data-adaptive positional encoding (DAPE)", "Zheng et al. 2024, arXiv:2405.14722");
  info.aliases = {"cape"};
  return scheme_info<DapeParameters>(std::move(info), check<DapeParameters>);
}

SchemeInfo dape_v2_info() {
  SchemeInfo info =
      info_of("dape_v2", "data-adaptive positional encoding with convolutions (DAPE v2)", "Zheng et al. 2024, arXiv:2410.04798");
  return scheme_info<DapeV2Parameters>(std::move(info), check<DapeV2Parameters>);
}

#else

namespace {

class Dape : public Scheme {
 public:
  /// A kernel of 1 is the linear layer of version 1.
  Dape(const BiasScheme& over, std::int64_t hidden, std::int64_t kernel, const ModelShape& shape)
      : over_(register_module("over", make_scheme(over.name, over.parameters, shape))),
        heads_(shape.heads),
        kernel_(kernel),
        reach_(kernel / 2) {
    hidden_weight_ = register_parameter("hidden_weight", torch::zeros({hidden, 2 * heads_, kernel}));
    hidden_bias_ = register_parameter("hidden_bias", torch::zeros({hidden}));
    output_weight_ = register_parameter("output_weight", torch::zeros({heads_, hidden, kernel}));
  }

  Tensor score(const Tensor& s, const Content&, const Frame& frame) const override {
    const Tensor bias = base_bias(frame).to(s.scalar_type()).expand({heads_, -1, -1}).masked_fill(frame.unseen(), 0).unsqueeze(0);
    // The half of the first layer that sees the bias is the same for the whole batch.
    const Tensor of_bias = first_layer(bias, heads_, hidden_bias_.view({1, -1, 1}));  // [1, hidden, Q·(K + reach)]
    return s + bias + last_layer(torch::leaky_relu(first_layer(s, 0, of_bias)), s.size(2), s.size(3));
  }

  double last_position() const override { return over_->last_position(); }
  void constrain() const override { over_->constrain(); }

  /// The first layer as torch's, U(±1/√inputs); the last at zero, so that the base scheme is where training starts.
  void initialise(torch::Generator generator) override {
    const torch::NoGradGuard no_grad;
    over_->initialise(generator);
    const double bound = 1 / std::sqrt(static_cast<double>(hidden_weight_[0].numel()));
    hidden_weight_.uniform_(-bound, bound, generator);
    hidden_bias_.uniform_(-bound, bound, generator);
    output_weight_.zero_();
  }

 private:
  // The convolutions are products of matrices: oneDNN's have no fast path for as few channels as there are heads.

  /// `base` and what the first layer makes of x [b, H, Q, K], its inputs `first` to `first` + H → [b, hidden, Q·(K + reach)]: also
  /// of the columns behind the keys that the last layer sees.
  Tensor first_layer(const Tensor& x, std::int64_t first, const Tensor& base) const {
    const Tensor padded = torch::constant_pad_nd(x, {reach_, 2 * reach_});
    std::vector<Tensor> shifted;
    for (std::int64_t t = 0; t < kernel_; ++t) shifted.push_back(padded.slice(3, t, t + x.size(3) + reach_));
    const Tensor weight = hidden_weight_.slice(1, first, first + heads_).transpose(1, 2).flatten(1);  // [hidden, kernel·H]
    return torch::baddbmm(base, weight.expand({x.size(0), -1, -1}), torch::cat(shifted, 1).flatten(2));
  }

  /// [B, hidden, Q·(K + reach)] → [B, H, Q, K]
  Tensor last_layer(const Tensor& hidden, std::int64_t queries, std::int64_t keys) const {
    const Tensor weight = output_weight_.permute({2, 0, 1}).flatten(0, 1);  // [kernel·H, hidden]
    const Tensor product = torch::bmm(weight.expand({hidden.size(0), -1, -1}), hidden).unflatten(2, {queries, keys + reach_});
    const Tensor padded = torch::constant_pad_nd(product, {reach_, 0});  // [B, kernel·H, Q, K + 2·reach]
    Tensor sum = padded.slice(1, 0, heads_).slice(3, 0, keys);
    for (std::int64_t t = 1; t < kernel_; ++t) sum = sum + padded.slice(1, t * heads_, (t + 1) * heads_).slice(3, t, t + keys);
    return sum;
  }

  /// [H or 1, Q, K]; at evenly spaced positions there are only as many distances as keys.
  Tensor base_bias(const Frame& frame) const {
    if (over_->dense_bias() || frame.queries.spacing <= 0) return over_->bias(frame);
    return from_diagonals(over_->distance_bias(diagonal_steps(frame).clamp_min(0) * frame.queries.spacing), frame);
  }

  std::shared_ptr<Scheme> over_;
  Tensor hidden_weight_, hidden_bias_;  ///< [hidden, 2H, kernel], the logits' half before the bias's; [hidden]
  Tensor output_weight_;                ///< [H, hidden, kernel]
  std::int64_t heads_, kernel_, reach_;
};

}  // namespace

std::shared_ptr<Scheme> make_dape(const Json& parameters, const ModelShape& shape) {
  const auto p = from_json<DapeParameters>(parameters);
  return std::make_shared<Dape>(p.over, p.hidden, 1, shape);
}

std::shared_ptr<Scheme> make_dape_v2(const Json& parameters, const ModelShape& shape) {
  const auto p = from_json<DapeV2Parameters>(parameters);
  return std::make_shared<Dape>(p.over, p.hidden, p.kernel, shape);
}

#endif

}  // namespace posenc
