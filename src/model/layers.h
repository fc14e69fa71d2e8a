#pragma once
// The parts of a transformer block. Shapes: B batch, T positions, C d_model, H heads, D head width, F d_ff.

#include <torch/nn/module.h>

#include <optional>
#include <string>

#include "model/attention.h"
#include "model/config.h"

namespace posenc {

/// RMSNorm (Zhang, Sennrich 2019) or LayerNorm over the last dimension.
class Norm : public torch::nn::Module {
 public:
  explicit Norm(const ModelConfig& config);
  Tensor forward(const Tensor& x) const;

 private:
  bool rms_;
  double eps_;
  Tensor weight_, bias_;
};

/// y = W·x (+ b); weight [out, in].
class Projection : public torch::nn::Module {
 public:
  Projection(std::int64_t in, std::int64_t out, bool bias);
  Tensor forward(const Tensor& x) const { return torch::linear(x, weight_, bias_); }

 private:
  Tensor weight_, bias_;
};

/// Pre-norm block: x += out(attention(norm(x))); x += mlp(norm(x)).
class DecoderBlock : public torch::nn::Module {
 public:
  explicit DecoderBlock(const ModelConfig& config);
  /// x [B, T, C]; `plan` holds the scheme's mask and bias for these positions.
  Tensor forward(const Tensor& x, const Scheme& scheme, const Positions& positions, const AttentionPlan& plan,
                 const std::optional<torch::Generator>& dropout_generator) const;

 private:
  Tensor attention(const Tensor& x, const Scheme& scheme, const Positions& positions, const AttentionPlan& plan) const;
  Tensor mlp(const Tensor& x) const;

  ModelShape shape_;
  std::string activation_;
  double dropout_;
  std::shared_ptr<Norm> attention_norm_, mlp_norm_;
  std::shared_ptr<Projection> qkv_, out_, up_, gate_, down_;  ///< qkv rows: all q heads, then k, then v; gate only for swiglu
};

/// Whether a parameter's name is of a projection back into the residual stream (smaller initial weights).
bool is_residual_projection(const std::string& parameter_name);

/// Inverted dropout from a generator of the caller's; x itself when there is none or rate is 0.
Tensor dropout(const Tensor& x, double rate, const std::optional<torch::Generator>& generator);

}  // namespace posenc
