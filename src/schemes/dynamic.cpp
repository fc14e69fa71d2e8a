// Dynamic position bias: a small network maps the distance to a bias per head. x-transformers' DynamicPositionBias; the same idea
// as the continuous position bias of Swin V2 (Liu et al. 2022, arXiv:2111.09883), which takes the logarithm of the distance.
//   b(d) = W_n·silu(… silu(w_1·t + b_1) …), t = d or ln(1 + d); added after the 1/√D scale.
// Departure: no bias in the last layer. Added to every logit of a head alike, it changes no softmax.
#include <algorithm>
#include <cmath>
#include <optional>

#include "schemes/info.h"
#ifdef POSENC_TENSORS
#include "schemes/scheme.h"
#endif

namespace posenc {
namespace {

struct DynamicParameters {
  std::int64_t depth = 2;
  std::optional<std::int64_t> width;
  bool log_distance = false;
  bool share_layers = true;
};

}  // namespace

template <>
const Schema<DynamicParameters>& schema<DynamicParameters>() {
  static const Schema<DynamicParameters> table =
      Schema<DynamicParameters>("dynamic")
          .field("depth", &DynamicParameters::depth, "hidden layers of the network")
          .range(1, 16)
          .field("width", &DynamicParameters::width, "width of its hidden layers; null: d_model/4")
          .range(1, 1 << 14)
          .field("log_distance", &DynamicParameters::log_distance, "feed it ln(1 + distance) instead of the distance")
          .field("share_layers", &DynamicParameters::share_layers, "one network for all layers, or one for each");
  return table;
}

#ifndef POSENC_TENSORS

SchemeInfo dynamic_info() {
  SchemeInfo info;
  info.name = "dynamic";
  info.aliases = {"dynamic_pos_bias", "cpb"};
  info.title = "dynamic position bias, a network of the distance";
  info.paper = "x-transformers, DynamicPositionBias; Liu et al. 2022, arXiv:2111.09883";
  info.traits = {.relative = true, .real_positions = true, .hooks = "distance_bias"};
  info.scale = "after the 1/sqrt(head_dim) scale";
  return scheme_info<DynamicParameters>(std::move(info));
}

#else

namespace {

class Dynamic : public Scheme {
 public:
  Dynamic(const DynamicParameters& p, const ModelShape& shape) : log_distance_(p.log_distance) {
    const std::int64_t width = p.width.value_or(std::max<std::int64_t>(shape.d_model / 4, 1));
    for (std::int64_t l = 0; l <= p.depth; ++l) {
      const std::string number = std::to_string(l);
      weights_.push_back(
          register_parameter("weight_" + number, torch::zeros({l < p.depth ? width : shape.heads, l > 0 ? width : 1})));
      if (l < p.depth) biases_.push_back(register_parameter("bias_" + number, torch::zeros({width})));
    }
  }

  /// In float64: a distance is large beside what the network makes of it.
  Tensor distance_bias(const Tensor& distances) const override {
    // Each distance once: there are few among n = Q·K pairs.
    const auto [distinct, which, counts] = torch::_unique2(distances, /*sorted=*/true, /*return_inverse=*/true);
    Tensor x = (log_distance_ ? distinct.log1p() : distinct).unsqueeze(1);  // [m, 1]
    for (std::size_t l = 0; l < biases_.size(); ++l)
      x = torch::silu(torch::linear(x, weights_[l].to(torch::kFloat64), biases_[l].to(torch::kFloat64)));  // [m, width]
    const Tensor bias = weights_.back().to(torch::kFloat64).matmul(x.t());                                 // [H, m]
    return bias.gather(1, which.expand({bias.size(0), which.size(0)}));                                    // [H, n]
  }

  /// torch's rule for linear layers: weights and biases uniform within ± 1/√inputs.
  void initialise(torch::Generator generator) override {
    torch::NoGradGuard no_grad;
    for (std::size_t l = 0; l < weights_.size(); ++l) {
      const double bound = 1 / std::sqrt(static_cast<double>(weights_[l].size(1)));
      weights_[l].uniform_(-bound, bound, generator);
      if (l < biases_.size()) biases_[l].uniform_(-bound, bound, generator);
    }
  }

 private:
  std::vector<Tensor> weights_;  ///< [width, 1], [width, width] …, [H, width]
  std::vector<Tensor> biases_;   ///< [width] for each but the last
  bool log_distance_;
};

}  // namespace

std::shared_ptr<Scheme> make_dynamic(const Json& parameters, const ModelShape& shape) {
  return std::make_shared<Dynamic>(from_json<DynamicParameters>(parameters), shape);
}

#endif

}  // namespace posenc
