#include "model/layers.h"

namespace posenc {

Norm::Norm(const ModelConfig& config) : rms_(config.norm == "rmsnorm"), eps_(config.norm_eps) {
  weight_ = register_parameter("weight", torch::ones({config.d_model}));
  if (!rms_ && config.bias) bias_ = register_parameter("bias", torch::zeros({config.d_model}));
}

Tensor Norm::forward(const Tensor& x) const {
  if (!rms_) return torch::layer_norm(x, {x.size(-1)}, weight_, bias_, eps_);
  return x * torch::rsqrt(x.square().mean(-1, true) + eps_) * weight_;
}

Projection::Projection(std::int64_t in, std::int64_t out, bool bias) {
  weight_ = register_parameter("weight", torch::zeros({out, in}));
  if (bias) bias_ = register_parameter("bias", torch::zeros({out}));
}

DecoderBlock::DecoderBlock(const ModelConfig& c) : shape_(c.shape(1)), activation_(c.activation), dropout_(c.dropout) {
  const std::int64_t q_width = shape_.heads * shape_.head_dim, kv_width = shape_.kv_heads * shape_.head_dim;
  attention_norm_ = register_module("attention_norm", std::make_shared<Norm>(c));
  qkv_ = register_module("qkv", std::make_shared<Projection>(c.d_model, q_width + 2 * kv_width, c.bias));
  out_ = register_module("out", std::make_shared<Projection>(q_width, c.d_model, c.bias));
  mlp_norm_ = register_module("mlp_norm", std::make_shared<Norm>(c));
  if (activation_ == "swiglu") gate_ = register_module("gate", std::make_shared<Projection>(c.d_model, *c.d_ff, c.bias));
  up_ = register_module("up", std::make_shared<Projection>(c.d_model, *c.d_ff, c.bias));
  down_ = register_module("down", std::make_shared<Projection>(*c.d_ff, c.d_model, c.bias));
}

Tensor DecoderBlock::attention(const Tensor& x, const Scheme& scheme, const Positions& positions,
                               const AttentionPlan& plan) const {
  const auto batch = x.size(0), length = x.size(1);
  const auto [heads, kv_heads, width] = std::tuple(shape_.heads, shape_.kv_heads, shape_.head_dim);
  const Tensor all = qkv_->forward(x).view({batch, length, heads + 2 * kv_heads, width}).transpose(1, 2);  // [B, H+2Hkv, T, D]
  Tensor q = all.slice(1, 0, heads);
  Tensor k = all.slice(1, heads, heads + kv_heads);
  Tensor v = all.slice(1, heads + kv_heads);
  if (scheme.rotates()) {
    q = scheme.rotate(q, positions);
    k = scheme.rotate(k, positions);
  }
  if (kv_heads < heads) {  // each key/value head serves heads / kv_heads consecutive query heads
    k = k.repeat_interleave(heads / kv_heads, 1);
    v = v.repeat_interleave(heads / kv_heads, 1);
  }
  const Tensor y = plan({q, k, v, x});                                              // [B, H, T, D]
  return out_->forward(y.transpose(1, 2).reshape({batch, length, heads * width}));  // [B, T, C]
}

Tensor DecoderBlock::mlp(const Tensor& x) const {
  if (gate_) return down_->forward(torch::silu(gate_->forward(x)) * up_->forward(x));
  const Tensor h = up_->forward(x);  // [B, T, F]
  if (activation_ == "relu") return down_->forward(torch::relu(h));
  return down_->forward(torch::gelu(h, activation_ == "gelu_tanh" ? "tanh" : "none"));
}

Tensor DecoderBlock::forward(const Tensor& x, const Scheme& scheme, const Positions& positions, const AttentionPlan& plan,
                             const std::optional<torch::Generator>& generator) const {
  const Tensor y = x + dropout(attention(attention_norm_->forward(x), scheme, positions, plan), dropout_, generator);
  return y + dropout(mlp(mlp_norm_->forward(y)), dropout_, generator);
}

bool is_residual_projection(const std::string& name) {
  const auto ends_with = [&](const std::string& end) {
    return name.size() > end.size() && name.compare(name.size() - end.size(), end.size(), end) == 0;
  };
  return ends_with(".out.weight") || ends_with(".down.weight");
}

Tensor dropout(const Tensor& x, double rate, const std::optional<torch::Generator>& generator) {
  if (!generator || rate == 0) return x;
  const Tensor keep = torch::empty_like(x).bernoulli_(1 - rate, *generator);
  return x * keep / (1 - rate);
}

}  // namespace posenc
