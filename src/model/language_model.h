#pragma once
// A language model: token ids in, one distribution over the next token per position out. The head is apart from the body, so that
// evaluation computes logits of scored positions only.
//
//   auto model = make_model(config, vocab, shape);   model->initialise(seed);
//   Tensor h = model->hidden(tokens, pass);          // [B, T, C]
//   Tensor l = model->logits(h);                     // [B, T, V]
//
// Forward keeps no state but in a cache of the caller's; several threads may call it on one model at once.

#include <torch/nn/module.h>

#include <cstdint>
#include <memory>
#include <optional>

#include "extend/extension.h"
#include "model/attention.h"
#include "model/config.h"
#include "model/kv_cache.h"

namespace posenc {

/// How one forward is to be computed.
struct Pass {
  AttentionPath attention = AttentionPath::kAuto;
  const Extension* extension = nullptr;     ///< of positions, in place of the model's own if it has one
  std::optional<torch::Generator> dropout;  ///< draws the dropout masks; none: no dropout
  bool training = false;                    ///< positions as the sampler draws them in training; no inference-only temperature
  std::uint64_t position_seed = 0;          ///< of the draw of positions
  std::int64_t first_position = 0;          ///< added to every position
  std::int64_t block_rows = 0;              ///< queries per block of the blocked path; 0: by size
  int threads = 1;                          ///< of the fused attention, within this forward
  KvCache* cache = nullptr;                 ///< the tokens before, if any; gets those of this forward. Without a graph only
  std::int64_t window = 0;  ///< the length positions and extensions are for, where it is more than the tokens so far
};

class LanguageModel : public torch::nn::Module {
 public:
  /// tokens [B, T] int64 → [B, T, C], normalised and ready for logits().
  virtual Tensor hidden(const Tensor& tokens, const Pass& pass) const = 0;
  /// [..., C] → [..., V].
  virtual Tensor logits(const Tensor& hidden) const = 0;
  /// Called after every optimizer step: puts parameters back within their bounds.
  virtual void constrain() const {}
  /// Fills every parameter; each from a stream of its own, named for it, so that one more parameter changes no other.
  virtual void initialise(std::uint64_t seed) = 0;
  /// Why `length` inputs cannot be represented, with both numbers, or "". ConfigError when the extension is not for this model.
  virtual std::string refusal(std::int64_t length, const Extension* extension) const = 0;
  /// The attention paths of a forward over tokens [batch, length], each named once: "fused", "fused, blocked"; "" of a model that
  /// does not attend.
  virtual std::string attention_paths(std::int64_t, std::int64_t, const Pass&) const { return ""; }
  /// How many draws of positions an evaluation averages over; draw d is the pass with another position_seed.
  virtual std::int64_t position_draws() const { return 1; }
  /// Trained numbers, each once.
  std::int64_t parameter_count() const;
};

/// Builds the model that `config` (resolved) names, parameters not yet filled. `dtype` is of parameters and activations.
std::shared_ptr<LanguageModel> make_model(const ModelConfig& config, std::int64_t vocab, std::int64_t train_length,
                                          torch::ScalarType dtype = torch::kFloat32);

/// −log p(target) of every position: hidden [n, C], targets [n] int64 → [n] float64. Logits are formed in chunks of rows,
/// on up to `threads` threads.
Tensor target_nll(const LanguageModel& model, const Tensor& hidden, const Tensor& targets, int threads = 1);

}  // namespace posenc
