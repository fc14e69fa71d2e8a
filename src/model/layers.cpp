#include "model/layers.h"

#include <ATen/ThreadLocalState.h>

#include <algorithm>

#include "core/parallel.h"
#include "model/fused_rows.h"
#include "model/temperature.h"

namespace posenc {

Norm::Norm(const ModelConfig& config) : Norm(config.d_model, config.norm == "rmsnorm", config.bias, config.norm_eps) {}

Norm::Norm(std::int64_t width, bool rms, bool bias, double eps) : rms_(rms), eps_(eps) {
  weight_ = register_parameter("weight", torch::ones({width}));
  if (!rms_ && bias) bias_ = register_parameter("bias", torch::zeros({width}));
}

Tensor Norm::forward(const Tensor& x) const {
  if (!rms_) return torch::layer_norm(x, {x.size(-1)}, weight_, bias_, eps_);
  return rms_norm(x, weight_, eps_);
}

Projection::Projection(std::int64_t in, std::int64_t out, bool bias) {
  weight_ = register_parameter("weight", torch::zeros({out, in}));
  if (bias) bias_ = register_parameter("bias", torch::zeros({out}));
}

Tensor Projection::forward(const Tensor& x, std::int64_t begin, std::int64_t end) const {
  return affine(x, weight_.slice(0, begin, end), bias_.defined() ? bias_.slice(0, begin, end) : bias_);
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

Tensor DecoderBlock::project(const Tensor& x, const Tensor& positioned, int threads) const {
  const std::int64_t heads = shape_.heads + 2 * shape_.kv_heads, width = shape_.head_dim;
  const std::int64_t v_begin = (shape_.heads + shape_.kv_heads) * width;
  const Tensor all = positioned.is_same(x)
                         ? by_rows(x, heads * width, threads, [&](const Tensor& rows) { return qkv_->forward(rows); })
                         : torch::cat({qkv_->forward(positioned, 0, v_begin), qkv_->forward(x, v_begin, heads * width)}, 2);
  return all.view({x.size(0), x.size(1), heads, width}).transpose(1, 2);
}

namespace {

/// Puts what the layer has seen before in front of the keys, values and content of `in`, and keeps it all.
void prepend(KvCache::Layer& cache, AttentionInput& in, bool content_dependent) {
  if (!content_dependent) in.x = in.x.slice(2, 0, 0);
  const auto grown = [](const Tensor& before, const Tensor& x, std::int64_t dim) {
    return before.defined() ? torch::cat({before, x}, dim) : x;
  };
  in.k = cache.k = grown(cache.k, in.k, 2);
  in.v = cache.v = grown(cache.v, in.v, 2);
  in.x = cache.x = grown(cache.x, in.x, 1);
}

}  // namespace

Tensor DecoderBlock::attention(const Tensor& x, const Scheme& scheme, const AttentionPlan& plan, const Pass& pass,
                               KvCache::Layer* cache) const {
  const auto batch = x.size(0), length = x.size(1);
  const auto [heads, kv_heads, width] = std::tuple(shape_.heads, shape_.kv_heads, shape_.head_dim);
  const Frame& frame = plan.frame();
  const std::vector<Tensor> parts = project(x, scheme.attention_input(x, frame), pass.threads)
                                        .split_with_sizes({heads, kv_heads, kv_heads}, 1);  // each [B, …, T, D]
  AttentionInput in{parts[0], parts[1], parts[2], x};
  if (q_norm_) {
    in.q = q_norm_->forward(in.q);
    in.k = k_norm_->forward(in.k);
  }
  if (cache) prepend(*cache, in, plan.content_dependent());
  in.temperature = temperature(axes_.temperature, temperature_, frame, pass.training);
  in.sink = axes_.sinks.type == "zero" ? torch::zeros({heads}, x.options()) : sink_;
  const Tensor y = plan(in).transpose(1, 2).reshape({batch, length, heads * width});
  return by_rows(y, x.size(2), pass.threads, [&](const Tensor& rows) { return out_->forward(rows); });  // [B, T, C]
}

Tensor DecoderBlock::mlp(const Tensor& x) const {
  if (gate_) return down_->forward(swiglu(gate_->forward(x), up_->forward(x)));
  const Tensor h = up_->forward(x);  // [B, T, F]
  if (activation_ == "relu") return down_->forward(torch::relu(h));
  return down_->forward(torch::gelu(h, activation_ == "gelu_tanh" ? "tanh" : "none"));
}

Tensor DecoderBlock::forward(const Tensor& x, const Scheme& scheme, const AttentionPlan& plan, const Pass& pass,
                             KvCache::Layer* cache) const {
  const Tensor in = scheme.layer_input(x, plan.frame());
  const Tensor normed = by_rows(in, in.size(2), pass.threads, [&](const Tensor& rows) { return attention_norm_->forward(rows); });
  const Tensor y = in + dropout(attention(normed, scheme, plan, pass, cache), dropout_, pass.dropout);
  return by_rows(y, y.size(2), pass.threads,
                 [&](const Tensor& rows) { return rows + dropout(mlp(mlp_norm_->forward(rows)), dropout_, pass.dropout); });
}

Tensor by_rows(const Tensor& x, std::int64_t width, int threads, const std::function<Tensor(const Tensor&)>& f) {
  constexpr std::int64_t kRows = 1024;
  const std::int64_t length = x.size(1);
  if (torch::GradMode::is_enabled() || length <= kRows) return f(x);
  Tensor out = torch::empty({x.size(0), length, width}, x.options());
  const at::ThreadLocalState here;
  parallel_for((length + kRows - 1) / kRows, threads, [&](std::int64_t piece) {
    const at::ThreadLocalStateGuard as_here(here);
    at::set_num_threads(1);
    const std::int64_t begin = piece * kRows, end = std::min(begin + kRows, length);
    out.slice(1, begin, end).copy_(f(x.slice(1, begin, end)));
  });
  return out;
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
