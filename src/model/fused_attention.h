#pragma once
// kernels/attention.h as one differentiable operation on tensors.

#include <torch/types.h>

#include "kernels/visibility.h"
#include "schemes/scheme.h"

namespace posenc {

/// What joins q·k and v besides. Undefined: absent.
struct FusedTerms {
  ContentTerms content;  ///< its distance_bias is the whole bias, of positions and of content
  std::optional<PiecewiseBias> piecewise;
  Tensor temperature;  ///< τ [1 or H, Q]
  Tensor sink;         ///< [H]
  Turn query_turn, key_turn;
  Visibility visible;
  std::int64_t first_query = 0;
  int threads = 1;  ///< for this one call
};

/// q [B, H, Q, D], k [B, Hkv, K, D], v [B, Hkv, K, Dv], float32, of any strides whose last is 1, not yet turned → y [B, H, Q, Dv].
/// Differentiable by all of them and by the terms, but not by the turns.
Tensor fused_attention(const Tensor& q, const Tensor& k, const Tensor& v, const FusedTerms& terms);

}  // namespace posenc
