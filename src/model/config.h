#pragma once
// The model section of an experiment: a pre-norm decoder-only transformer and its positional scheme. No torch.

#include <cstdint>
#include <optional>
#include <string>

#include "core/schema.h"
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
  PositionConfig position;

  /// Writes the derived defaults out.
  void resolve();
  ModelShape shape(std::int64_t train_length) const;
};

template <>
const Schema<ModelConfig>& schema<ModelConfig>();

}  // namespace posenc
