#include "model/layers.h"

#include "model/temperature.h"

namespace posenc {

Norm::Norm(const ModelConfig& config) : Norm(config.d_model, config.norm == "rmsnorm", config.bias, config.norm_eps) {}

Norm::Norm(std::int64_t width, bool rms, bool bias, double eps) : rms_(rms), eps_(eps) {
  weight_ = register_parameter("weight", torch::ones({width}));
  if (!rms_ && bias) bias_ = register_parameter("bias", torch::zeros({width}));
}

Tensor Norm::forward(const Tensor& x) const {
  if (!rms_) return torch::layer_norm(x, {x.size(-1)}, weight_, bias_, eps_);
  return x * torch::rsqrt(x.square().mean(-1, true) + eps_) * weight_;
}

Projection::Projection(std::int64_t in, std::int64_t out, bool bias) {
  weight_ = register_parameter("weight", torch::zeros({out, in}));
  if (bias) bias_ = register_parameter("bias", torch::zeros({out}));
}

Tensor Projection::forward(const Tensor& x, std::int64_t begin, std::int64_t end) const {
  return torch::linear(x, weight_.slice(0, begin, end), bias_.defined() ? bias_.slice(0, begin, end) : bias_);
}

DecoderBlock::DecoderBlock(const ModelConfig& c, const LayerAxes& axes, std::int64_t train_length)
    : shape_(c.shape(train_length)), axes_(axes), activation_(c.activation), dropout_(c.dropout) {
  const std::int64_t q_width = shape_.heads * shape_.head_dim, kv_width = shape_.kv_heads * shape_.head_dim;
  attention_norm_ = register_module("attention_norm", std::make_shared<Norm>(c));
  qkv_ = register_module("qkv", std::make_shared<Projection>(c.d_model, q_width + 2 * kv_width, c.bias));
  if (c.qk_norm) {
    q_norm_ = register_module("q_norm", std::make_shared<Norm>(shape_.head_dim, true, false, c.norm_eps));
    k_norm_ = register_module("k_norm", std::make_shared<Norm>(shape_.head_dim, true, false, c.norm_eps));
  }
  if (axes.sinks.type == "learned") sink_ = register_parameter("sink", torch::zeros({shape_.heads}));
  if (axes.temperature.method == "ssmax") temperature_ = register_parameter("temperature", torch::zeros({shape_.heads}));
  out_ = register_module("out", std::make_shared<Projection>(q_width, c.d_model, c.bias));
  mlp_norm_ = register_module("mlp_norm", std::make_shared<Norm>(c));
  if (activation_ == "swiglu") gate_ = register_module("gate", std::make_shared<Projection>(c.d_model, *c.d_ff, c.bias));
  up_ = register_module("up", std::make_shared<Projection>(c.d_model, *c.d_ff, c.bias));
  down_ = register_module("down", std::make_shared<Projection>(*c.d_ff, c.d_model, c.bias));
}

void DecoderBlock::initialise_axes() {
  if (temperature_.defined()) temperature_.fill_(axes_.temperature.init.value_or(ssmax_init(shape_.train_length)));
}

Tensor DecoderBlock::project(const Tensor& x, const Tensor& positioned) const {
  const std::int64_t heads = shape_.heads + 2 * shape_.kv_heads, width = shape_.head_dim;
  const std::int64_t v_begin = (shape_.heads + shape_.kv_heads) * width;
  const Tensor all = positioned.is_same(x)
                         ? qkv_->forward(x)
                         : torch::cat({qkv_->forward(positioned, 0, v_begin), qkv_->forward(x, v_begin, heads * width)}, 2);
  return all.view({x.size(0), x.size(1), heads, width}).transpose(1, 2);
}

Tensor DecoderBlock::attention(const Tensor& x, const Scheme& scheme, const AttentionPlan& plan, bool training) const {
  const auto batch = x.size(0), length = x.size(1);
  const auto [heads, kv_heads, width] = std::tuple(shape_.heads, shape_.kv_heads, shape_.head_dim);
  const Frame& frame = plan.frame();
  const Tensor all = project(x, scheme.attention_input(x, frame));  // [B, H+2Hkv, T, D]
  Tensor q = all.slice(1, 0, heads);
  Tensor k = all.slice(1, heads, heads + kv_heads);
  Tensor v = all.slice(1, heads + kv_heads);
  if (q_norm_) {
    q = q_norm_->forward(q);
    k = k_norm_->forward(k);
  }
  if (scheme.rotates()) {
    q = scheme.rotate(q, Side::kQuery, frame);
    k = scheme.rotate(k, Side::kKey, frame);
  }
  const Tensor tau = temperature(axes_.temperature, temperature_, frame, training);  // [H or 1, T, 1]
  if (tau.defined()) q = q * tau.to(q.scalar_type());
  if (kv_heads < heads) {  // each key/value head serves heads / kv_heads consecutive query heads
    k = k.repeat_interleave(heads / kv_heads, 1);
    v = v.repeat_interleave(heads / kv_heads, 1);
  }
  const Tensor sink = axes_.sinks.type == "zero" ? torch::zeros({heads}, q.options()) : sink_;
  const Tensor y = plan({q, k, v, x}, sink);                                        // [B, H, T, D]
  return out_->forward(y.transpose(1, 2).reshape({batch, length, heads * width}));  // [B, T, C]
}

Tensor DecoderBlock::mlp(const Tensor& x) const {
  if (gate_) return down_->forward(torch::silu(gate_->forward(x)) * up_->forward(x));
  const Tensor h = up_->forward(x);  // [B, T, F]
  if (activation_ == "relu") return down_->forward(torch::relu(h));
  return down_->forward(torch::gelu(h, activation_ == "gelu_tanh" ? "tanh" : "none"));
}

Tensor DecoderBlock::forward(const Tensor& x, const Scheme& scheme, const AttentionPlan& plan, const Pass& pass) const {
  const Tensor in = scheme.layer_input(x, plan.frame());
  const Tensor attended = attention(attention_norm_->forward(in), scheme, plan, pass.training);
  const Tensor y = in + dropout(attended, dropout_, pass.dropout);
  return y + dropout(mlp(mlp_norm_->forward(y)), dropout_, pass.dropout);
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
