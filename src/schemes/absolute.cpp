#include "schemes/absolute.h"

#include <cmath>

namespace posenc {

#ifndef POSENC_TENSORS

void check_fusion(const FusionParameters& p, const ModelShape& shape, const Reader& reader) {
  if (p.position_width && p.fusion != "concat") reader.problem("position_width", "has a meaning only with the fusion concat");
  if (p.fusion == "concat" && (p.width(shape.d_model) < 1 || p.width(shape.d_model) >= shape.d_model)) {
    reader.problem(p.position_width ? "position_width" : "fusion",
                   "concat leaves no dims to the tokens: d_model is " + std::to_string(shape.d_model) +
                       ", of which positions take " + std::to_string(p.width(shape.d_model)));
  }
}

#else

AbsoluteScheme::AbsoluteScheme(const FusionParameters& p, std::int64_t d_model)
    : fusion_(p.fusion), d_model_(d_model), width_(p.width(d_model)) {
  if (fusion_ == "add_scaled") scale_ = register_parameter("fusion_scale", torch::zeros({1}));
  if (fusion_ == "concat_project" || fusion_ == "gated")
    weight_ = register_parameter("fusion_weight", torch::zeros({d_model, 2 * d_model}));
  if (fusion_ == "gated") bias_ = register_parameter("fusion_bias", torch::zeros({d_model}));
  if (fusion_ == "film") {
    weight_ = register_parameter("fusion_weight", torch::zeros({d_model, d_model}));
    shift_ = register_parameter("fusion_shift", torch::zeros({d_model, d_model}));
  }
}

Tensor AbsoluteScheme::embed(const Tensor& x, const Frame& frame) const {
  if (fusion_ == "per_layer" || fusion_ == "qk_only") return x;
  const Tensor p = vectors(frame, x.scalar_type());  // [Q, C], or its part of C
  if (fusion_ == "add") return x + p;
  if (fusion_ == "add_scaled") return x + scale_ * p;
  if (fusion_ == "film") return x * (1 + torch::linear(p, weight_)) + torch::linear(p, shift_);
  const Tensor both = torch::cat({x, p.unsqueeze(0).expand({x.size(0), -1, -1})}, 2);  // [B, Q, C + width]
  if (fusion_ == "concat") return both;
  if (fusion_ == "concat_project") return torch::linear(both, weight_);
  const Tensor gate = torch::sigmoid(torch::linear(both, weight_, bias_));  // [B, Q, C]
  return gate * x + (1 - gate) * p;
}

Tensor AbsoluteScheme::layer_input(const Tensor& x, const Frame& frame) const {
  return fusion_ == "per_layer" ? x + vectors(frame, x.scalar_type()) : x;
}

Tensor AbsoluteScheme::attention_input(const Tensor& x, const Frame& frame) const {
  return fusion_ == "qk_only" ? x + vectors(frame, x.scalar_type()) : x;
}

/// The gate starts half open; a projection keeps the scale of what it is given.
void AbsoluteScheme::initialise(torch::Generator generator) {
  const torch::NoGradGuard no_grad;
  const auto width = static_cast<double>(d_model_);
  if (scale_.defined()) scale_.fill_(std::pow(width, -0.5));
  if (weight_.defined()) weight_.normal_(0, fusion_ == "concat_project" ? std::pow(2 * width, -0.5) : 0.02, generator);
  if (bias_.defined()) bias_.zero_();
  if (shift_.defined()) shift_.normal_(0, 0.02, generator);
}

#endif

}  // namespace posenc
