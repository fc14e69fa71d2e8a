#pragma once
// The model section of an experiment: a pre-norm decoder-only transformer and its positional scheme. No torch.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/schema.h"
#include "extend/extension.h"
#include "model/position.h"

namespace posenc {

struct ModelConfig {
  std::string kind = "transformer";
  std::int64_t layers = 4, d_model = 128, heads = 4;
  std::optional<std::int64_t> kv_heads, head_dim, d_ff;  ///< null: heads, d_model / heads, 4·d_model; set once resolved
  std::string norm = "rmsnorm";
  double norm_eps = 1e-5;
  std::string activation = "gelu";
  bool bias = false;
  bool qk_norm = false;
  double dropout = 0;
  bool tie_embeddings = true;
  std::int64_t kernel = 3;                             ///< taps of a conv model's filters
  std::optional<std::vector<std::int64_t>> dilations;  ///< of its layers; null: 1, 2, 4, …
  PositionConfig position;
  std::optional<ExtensionConfig> extension;    ///< the model is trained and used under it
  std::optional<std::int64_t> trained_length;  ///< what counts as the training length; null: train.length

  /// The distance between the taps of layer `l` of a conv model, and how many tokens its output depends on.
  std::int64_t dilation(std::int64_t l) const;
  std::int64_t receptive_field() const;

  /// Writes the derived defaults out.
  void resolve();
  ModelShape shape(std::int64_t train_length) const;  ///< trained_length goes before train_length
};

template <>
const Schema<ModelConfig>& schema<ModelConfig>();

}  // namespace posenc
