#pragma once
// Turning pairs of dims, which rope and its relatives share. Tensors only.

#include <torch/types.h>

#include <cstdint>

namespace posenc {

using torch::Tensor;

/// Turns the pairs (a, b) among the first R dims of x [B, H, n, D] to (a·cos − b·sin, a·sin + b·cos); the rest stays. `cos` and
/// `sin` [n, R/2], float64 and cast to x's dtype at the end, may hold a factor of each pair as well. Pairs are (2k, 2k+1) when
/// `interleaved`, else (k, k+R/2). Differentiable by x, and by cos and sin where they require it.
Tensor turn_pairs(const Tensor& x, const Tensor& cos, const Tensor& sin, bool interleaved);

}  // namespace posenc
