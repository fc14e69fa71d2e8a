#pragma once
// Causal attention in float32 without a matrix over queries and keys: tiles of logits, online softmax, and a backward pass that
// forms them again (Dao et al. 2022, arXiv:2205.14135). Everything positional is formed while a tile is at hand, so that it costs
// no memory and no pass of its own:
//
//   s_ij = τ_i·scale·(R_i q_i)·(R_j k_j + a_{i−j}) + bias[i − j] + f(u_ij) + c_i − c_j,  f piecewise linear
//   y_i  = Σ_j softmax_j(s_i, sink)·(v_j + b_{i−j})
//
// Plain arrays, no torch. attention_simd.cpp holds the fast code, one copy per instruction set (Highway picks at run time),
// attention_reference.cpp the same sums in double, written to be read; tests hold them together.
//
// Distances here are by index: positions must be evenly spaced for what depends on them. Results do not depend on `threads`.

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/visibility.h"

namespace posenc::kernels {

/// Rows [batch, head, index, width] of an array whose last dimension is dense; strides count numbers.
template <class T>
struct Rows {
  T* data = nullptr;
  std::int64_t batch_stride = 0, head_stride = 0, row_stride = 0;
  T* at(std::int64_t b, std::int64_t h, std::int64_t i) const {
    return data + b * batch_stride + h * head_stride + i * row_stride;
  }
};

struct AttentionShape {
  std::int64_t batch = 1;
  std::int64_t heads = 1, kv_heads = 1;  ///< each key/value head serves heads / kv_heads consecutive query heads
  std::int64_t queries = 1, keys = 1;
  std::int64_t first_query = 0;  ///< index of query 0 among the keys; first_query + queries ≤ keys
  std::int64_t width = 1;        ///< of q and k
  std::int64_t value_width = 1;  ///< of v and y
  Visibility visible;
};

/// Turns pairs of the first 2·pairs dims of row i: (a, b) → (a·cos − b·sin, a·sin + b·cos), with cos and sin [rows, pairs].
struct Rotation {
  const float* cos = nullptr;  ///< null: nothing is turned
  const float* sin = nullptr;
  std::int64_t pairs = 0;
  bool interleaved = false;  ///< pairs (2p, 2p+1), else (p, p + pairs)
};

/// A bias f_h(u) of u = by_distance[i − j]·by_query[i], linear between kinks: slope·u + intercept, the pair `p` where u lies behind
/// p kinks.
struct PiecewiseBias {
  const float* kinks = nullptr;  ///< [count] ascending
  std::int64_t count = 0;
  const float* slopes = nullptr;       ///< [heads, count + 1]; null: no such bias
  const float* intercepts = nullptr;   ///< [heads, count + 1]
  const float* by_distance = nullptr;  ///< [keys], never falling
  const float* by_query = nullptr;     ///< [queries], positive
};

/// Gradients of the same, all or none.
struct PiecewiseGradients {
  float* slopes = nullptr;       ///< [batch, heads, count + 1]
  float* intercepts = nullptr;   ///< [batch, heads, count + 1]
  float* by_distance = nullptr;  ///< [batch, heads, keys]
  float* by_query = nullptr;     ///< [batch, heads, queries]
};

/// What attention reads. Null pointers stand for terms that are absent.
struct AttentionInputs {
  Rows<const float> q, k, v;
  float scale = 1;
  Rotation q_rotation, k_rotation;
  const float* temperature = nullptr;      ///< τ [temperature_heads, queries]
  std::int64_t temperature_heads = 1;      ///< 1 or heads
  const float* distance_bias = nullptr;    ///< [bias_heads, keys], entry d of distance d
  std::int64_t bias_heads = 1;             ///< 1 or heads
  const double* decay = nullptr;           ///< c [batch, heads, keys]
  bool decay_of_query = true;              ///< false: only −c_j is added, no c_i
  const float* sink = nullptr;             ///< [heads], a logit without a value
  const float* relative_keys = nullptr;    ///< a [relative_heads, keys, width], row d of distance d
  const float* relative_values = nullptr;  ///< b [relative_heads, keys, value_width]
  std::int64_t relative_heads = 1;         ///< 1 or heads
  PiecewiseBias piecewise;
};

/// Where the gradients of the same go; null pointers are not wanted. All are written, not added to.
struct AttentionGradients {
  Rows<float> q, k, v;
  float* temperature = nullptr;      ///< [batch, heads, queries], to be summed over batch (and heads where τ has one)
  float* distance_bias = nullptr;    ///< [batch, heads, keys], to be summed over batch (and heads where the bias has one)
  double* decay = nullptr;           ///< [batch, heads, keys]
  float* sink = nullptr;             ///< [batch, heads]
  float* relative_keys = nullptr;    ///< [batch, heads, keys, width]
  float* relative_values = nullptr;  ///< [batch, heads, keys, value_width]
  PiecewiseGradients piecewise;
};

/// Writes y and, per query, the logarithm of the softmax's denominator [batch, heads, queries], which backward needs.
void attention_forward(const AttentionShape& shape, const AttentionInputs& in, Rows<float> y, float* log_sum, int threads = 1);

void attention_backward(const AttentionShape& shape, const AttentionInputs& in, Rows<const float> y, const float* log_sum,
                        Rows<const float> dy, const AttentionGradients& out, int threads = 1);

/// The forward sums in double, one query at a time.
void attention_reference(const AttentionShape& shape, const AttentionInputs& in, Rows<double> y, double* log_sum);

/// The instruction set the kernels use here ("AVX3" is AVX-512), and all this build holds and this machine runs.
std::string simd_target();
std::vector<std::string> simd_targets();
/// Uses only `name` from now on, for tests; "" goes back to the best one.
void use_simd_target(const std::string& name);

}  // namespace posenc::kernels
