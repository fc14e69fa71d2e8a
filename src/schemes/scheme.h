#pragma once
// Where a positional scheme touches attention. For one layer and one block of queries (B batch, H heads, Q queries, K keys, D
// head width):
//
//   x    = embed(tokens)                    once per model, before the first layer
//   q, k = rotate(q, k)                     every layer
//   s    = q·kᵀ/√D + bias                   bias sees positions only: distance_bias (Toeplitz) or bias (dense)
//   s    = score(s, content)                sees content too
//   y    = weights(mask(s))·v  (+ mix)      softmax unless the scheme replaces it; mix adds value-side terms
//
// A scheme overrides the hooks it needs and nothing else. Hooks keep no state between calls, and all calls may run on several
// threads at once. Distance goes by position, causality by index: queries may come in blocks, so Q ≠ K is normal.
//
// Precision: positions are float64; frequencies, angles, slopes and tables are built in float64 and only the finished cos/sin or
// bias is cast to the dtype of the activations. They are plain members, never buffers, so that a model-wide to(dtype) cannot
// touch them.

#include <torch/nn/module.h>
#include <torch/types.h>

#include <cstdint>
#include <limits>
#include <memory>
#include <utility>

#include "schemes/info.h"

namespace posenc {

using torch::Tensor;

/// Positions of a run of tokens.
struct Positions {
  Tensor values;       ///< [n] float64
  double spacing = 1;  ///< the constant step between neighbours; 0 when there is none
  Positions slice(std::int64_t begin, std::int64_t end) const { return {values.slice(0, begin, end), spacing}; }
};

/// What a hook may know about the block of queries at hand.
struct Frame {
  Positions queries;             ///< [Q]
  Positions keys;                ///< [K]
  std::int64_t first_query = 0;  ///< index of query 0 among the keys: query i sees keys 0 … first_query + i
  std::int64_t train_length = 0;

  std::int64_t query_count() const { return queries.values.size(0); }
  std::int64_t key_count() const { return keys.values.size(0); }
};

/// The content of a layer, for schemes whose logits depend on it. q, k, v after rotation.
struct Content {
  Tensor q;  ///< [B, H, Q, D]
  Tensor k;  ///< [B, H, K, D]
  Tensor v;  ///< [B, H, K, D]
  Tensor x;  ///< [B, K, C] the attention's input
};

class Scheme : public torch::nn::Module {
 public:
  /// Adds positions to the token embeddings x [B, Q, C].
  virtual Tensor embed(const Tensor& x, const Frame&) const { return x; }

  /// Whether rotate does anything.
  virtual bool rotates() const { return false; }
  /// Turns x [B, H, n, D] (queries or keys) by the angles of `positions` [n].
  virtual Tensor rotate(const Tensor& x, const Positions&) const { return x; }

  /// The bias of a query on a key `distances` [n] float64 behind it → [H, n], any dtype; undefined when the scheme has no such
  /// bias.
  virtual Tensor distance_bias(const Tensor&) const { return {}; }
  /// The bias [H or 1, Q, K], for what is not a function of the distance alone. Entries for future keys are never used. The
  /// default evaluates distance_bias for every pair; undefined when there is no bias.
  virtual Tensor bias(const Frame& frame) const;
  /// Whether bias is overridden, so that distance_bias alone does not describe the scheme.
  virtual bool dense_bias() const { return false; }

  /// Changes the scaled and biased logits s [B, H, Q, K] by content. Called only when the traits say content_dependent.
  virtual Tensor score(const Tensor& s, const Content&, const Frame&) const { return s; }
  /// Attention weights from masked logits (−∞ for unseen keys).
  virtual Tensor weights(const Tensor& s) const { return torch::softmax(s, -1); }
  /// Adds value-side terms to y [B, H, Q, D], given the weights [B, H, Q, K].
  virtual Tensor mix(const Tensor& y, const Tensor&, const Frame&) const { return y; }

  /// The last position the scheme can represent (the end of a table); unlimited by default.
  virtual double last_position() const { return std::numeric_limits<double>::infinity(); }

  /// Fills the parameters, which are zeros until then. The generator is this scheme's own.
  virtual void initialise(torch::Generator) {}
};

/// Builds the named scheme. `parameters` are resolved (SchemeInfo::resolve).
std::shared_ptr<Scheme> make_scheme(const std::string& name, const Json& parameters, const ModelShape& shape);

}  // namespace posenc
