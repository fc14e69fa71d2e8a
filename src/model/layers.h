#pragma once
// The parts of a transformer block. Shapes: B batch, T positions, C d_model, H heads, D head width, F d_ff.

#include <torch/nn/module.h>

#include <functional>
#include <optional>
#include <string>

#include "model/affine.h"
#include "model/attention.h"
#include "model/config.h"
#include "model/language_model.h"

namespace posenc {

/// RMSNorm (Zhang, Sennrich 2019) or LayerNorm over the last dimension.
class Norm : public torch::nn::Module {
 public:
  explicit Norm(const ModelConfig& config);
  Norm(std::int64_t width, bool rms, bool bias, double eps);
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
  Tensor forward(const Tensor& x) const { return affine(x, weight_, bias_); }
  /// Outputs `begin` to `end` alone.
  Tensor forward(const Tensor& x, std::int64_t begin, std::int64_t end) const;

 private:
  Tensor weight_, bias_;
};

/// f on the rows of x [B, T, C] → [B, T, width]. Without a graph, a long run is cut into pieces of a fixed size on up to `threads`
/// threads, so that what f needs in between stays small; the pieces, and so the bytes, do not depend on the threads.
Tensor by_rows(const Tensor& x, std::int64_t width, int threads, const std::function<Tensor(const Tensor&)>& f);

/// Pre-norm block: x = layer_input(x); x += out(attention(norm(x))); x += mlp(norm(x)).
class DecoderBlock : public torch::nn::Module {
 public:
  DecoderBlock(const ModelConfig& config, const LayerAxes& axes, std::int64_t train_length);
  /// x [B, T, C]; `plan` holds the scheme's mask and bias for these positions. `cache`: the layer's own of pass.cache.
  Tensor forward(const Tensor& x, const Scheme& scheme, const AttentionPlan& plan, const Pass& pass,
                 KvCache::Layer* cache = nullptr) const;
  void initialise_axes();

 private:
  Tensor attention(const Tensor& x, const Scheme& scheme, const AttentionPlan& plan, const Pass& pass,
                   KvCache::Layer* cache) const;
  /// [B, H+2·Hkv, T, D]: all q heads, then k, then v.
  Tensor project(const Tensor& x, const Tensor& positioned, int threads) const;
  Tensor mlp(const Tensor& x) const;

  ModelShape shape_;
  LayerAxes axes_;
  std::string activation_;
  double dropout_;
  std::shared_ptr<Norm> attention_norm_, mlp_norm_;
  std::shared_ptr<Projection> qkv_, out_, up_, gate_, down_;  ///< qkv rows: all q heads, then k, then v; gate only for swiglu
  std::shared_ptr<Norm> q_norm_, k_norm_;                     ///< with qk_norm
  Tensor sink_;                                               ///< [H] with learned sinks
  Tensor temperature_;                                        ///< [H] with ssmax
};

/// Whether a parameter's name is of a projection back into the residual stream (smaller initial weights).
bool is_residual_projection(const std::string& parameter_name);

/// Inverted dropout from a generator of the caller's; x itself when there is none or rate is 0.
Tensor dropout(const Tensor& x, double rate, const std::optional<torch::Generator>& generator);

}  // namespace posenc
