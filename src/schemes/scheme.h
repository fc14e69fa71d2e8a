#pragma once
// Where a positional scheme touches attention. For one layer and one block of queries (B batch, H heads, Q queries, K keys, D
// head width):
//
//   x    = embed(tokens)                    once per model, before the first layer
//   x    = layer_input(x)                   every layer, on the residual stream
//   q, k = rotate(q, k)                     every layer; both projected from attention_input(x), v from x
//   s    = τ·q·kᵀ/√D + bias                 bias sees positions only: distance_bias (Toeplitz) or bias (dense)
//   s    = score(s, content)                sees content too
//   y    = weights(mask(s))·v  (+ mix)      softmax unless the scheme replaces it; mix adds value-side terms
//
// The temperature τ, windows, sinks and the positions themselves are axes of their own (model/position.h), no part of a scheme.
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
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "kernels/visibility.h"
#include "schemes/info.h"

namespace posenc {

using torch::Tensor;

enum class Side { kQuery, kKey };

/// Positions of a run of tokens.
struct Positions {
  Tensor values;       ///< [n] float64
  double spacing = 1;  ///< the constant step between neighbours; 0 when there is none
  Positions slice(std::int64_t begin, std::int64_t end) const { return {values.slice(0, begin, end), spacing}; }
};

/// The frequencies of a rotary scheme, which an extension may change.
struct Frequencies {
  Tensor inv_freq;             ///< [R/2] float64
  double base = 10000;         ///< whose powers they are
  double magnitude = 1;        ///< a factor on cos and sin of queries and keys: logits scale by its square
  double first = 0;            ///< positions before this one turn by first_inv_freq instead
  Tensor first_inv_freq = {};  ///< [R/2] float64; undefined while first is 0
  /// By which positions [n] float64 are turned: [n, R/2] float64.
  Tensor angles(const Tensor& positions) const;
};

/// Other positions for keys at a distance: what an extension puts in place of distances that training never had.
struct FarPositions {
  double from = 0;  ///< the least distance (in positions of the frame) that is seen by these
  Positions queries, keys;
};

/// What a hook may know about the block of queries at hand.
struct Frame {
  Positions queries;             ///< [Q]
  Positions keys;                ///< [K]
  std::int64_t first_query = 0;  ///< index of query 0 among the keys: query i sees keys 0 … first_query + i
  std::int64_t train_length = 0;
  Visibility visible = {};
  std::optional<double> window_end;  ///< last position of a window that has more keys to come; none: that of the last key

  // What an extension adds (extend/extension.h); nothing by default.
  std::function<Frequencies(const Frequencies&, std::int64_t keys)> rescale;  ///< of rotary schemes, for so many keys
  bool stepwise = false;                                                      ///< rescale asks for the keys of each query alone
  std::optional<FarPositions> far;
  Tensor temperature;  ///< [Q] float64, a factor on q·k

  const Positions& of(Side side) const { return side == Side::kQuery ? queries : keys; }
  std::int64_t query_count() const { return queries.values.size(0); }
  std::int64_t key_count() const { return keys.values.size(0); }
  /// The frequencies to turn by.
  Frequencies rescaled(const Frequencies& trained) const { return rescale ? rescale(trained, key_count()) : trained; }
  /// Queries `begin` to `end` alone, with the keys that the last of them may see.
  Frame rows(std::int64_t begin, std::int64_t end) const;
  /// The frame of the far positions.
  Frame beyond() const;
  /// [Q, K] bool: the pairs seen by their far positions.
  Tensor is_far() const;
  /// [Q, K] bool: the keys a query must not see.
  Tensor unseen() const;
  /// [Q] float64: how many keys each query sees.
  Tensor seen_counts() const;
  /// [Q, K] float64, query position − key position; 0 for later keys.
  Tensor distances() const;
};

/// The content of a layer, for schemes whose logits depend on it. q, k, v after rotation.
struct Content {
  Tensor q;  ///< [B, H, Q, D] times the temperature
  Tensor k;  ///< [B, H, K, D]
  Tensor v;  ///< [B, H, K, D]
  Tensor x;  ///< [B, K, C] the attention's normalised input
};

/// Angles by which pairs of dims are turned: (a, b) → (a·cos − b·sin, a·sin + b·cos). Pairs are (2k, 2k+1) when interleaved, else
/// (k, k+R/2) among the first R dims.
struct Turn {
  Tensor cos, sin;  ///< [n, R/2] float64, each may hold a factor of the pair as well; undefined: nothing is turned
  bool interleaved = false;
};

/// A bias that is, head by head, linear in u_ij = by_distance[i − j]·by_query[i] between a few kinks. All float64 or float32.
struct PiecewiseBias {
  Tensor kinks;               ///< [P] ascending, no gradient
  Tensor slopes, intercepts;  ///< [H, P + 1], entry p where u lies behind p kinks
  Tensor by_distance;         ///< [K], entry d of distance d; never falls
  Tensor by_query;            ///< [Q], positive
};

/// What a scheme adds by content, in forms that need no matrix over queries and keys. Undefined: no such term.
struct ContentTerms {
  Tensor decay;          ///< c [B or 1, H, K] float64: adds c_i − c_j
  Tensor key_bias;       ///< [B or 1, H, K] float64: adds entry j
  Tensor distance_bias;  ///< [H, K]: adds entry i − j
  Tensor key_vectors;    ///< a [1 or H, K, D]: adds q_i·a_{i−j}/√D
  Tensor value_vectors;  ///< b [1 or H, K, D]: adds Σ_j w_ij b_{i−j} to y
};

class Scheme : public torch::nn::Module {
 public:
  /// Adds positions to the token embeddings x [B, Q, C].
  virtual Tensor embed(const Tensor& x, const Frame&) const { return x; }
  /// Changes the residual stream x [B, Q, C] on its way into a layer.
  virtual Tensor layer_input(const Tensor& x, const Frame&) const { return x; }
  /// What queries and keys are projected from, given the attention's normalised input x [B, Q, C]; values always come from x.
  virtual Tensor attention_input(const Tensor& x, const Frame&) const { return x; }

  /// Width of the token embeddings, where positions take the rest of d_model; 0: all of it.
  virtual std::int64_t token_width() const { return 0; }

  /// Whether rotate does anything.
  virtual bool rotates() const { return false; }
  /// The angles of the frame's queries or keys, whichever `side` says it is.
  virtual Turn turn(Side, const Frame&) const { return {}; }
  /// Turns x [B, H, n, D], by default as turn says. Both sides may come back wider than they went in; the logits are divided by
  /// the root of what comes back.
  virtual Tensor rotate(const Tensor& x, Side, const Frame&) const;

  /// The bias of a query on a key `distances` [n] float64 behind it → [H, n], any dtype; undefined when the scheme has no such
  /// bias.
  virtual Tensor distance_bias(const Tensor&) const { return {}; }
  /// The bias [H or 1, Q, K], for what is not a function of the distance alone. Entries for future keys are never used. The
  /// default evaluates distance_bias for every pair; undefined when there is no bias.
  virtual Tensor bias(const Frame& frame) const;
  /// Whether bias is overridden, so that distance_bias alone does not describe the scheme.
  virtual bool dense_bias() const { return false; }
  /// A dense bias once more in the form that the fused kernel takes, if it has one; for evenly spaced positions.
  virtual bool has_piecewise_bias() const { return false; }
  virtual PiecewiseBias piecewise_bias(const Frame&) const { return {}; }

  /// Changes the scaled and biased logits s [B, H, Q, K] by content. Called only when the traits say content_dependent. s is 0
  /// for unseen keys, so nothing leaks from there; a sum over keys must leave them out by frame.unseen(). What comes back for
  /// them is never used.
  virtual Tensor score(const Tensor& s, const Content&, const Frame&) const { return s; }
  /// Attention weights from masked logits (−∞ for unseen keys). With sinks, s has one more column, last.
  virtual Tensor weights(const Tensor& s, const Frame&) const { return torch::softmax(s, -1); }
  /// Adds value-side terms to y [B, H, Q, D], given the weights [B, H, Q, K].
  virtual Tensor mix(const Tensor& y, const Tensor&, const Frame&) const { return y; }

  /// score and mix once more in the forms of ContentTerms, where they have them: what the fused kernel takes. Asked for only at
  /// evenly spaced positions; entry d of a table is of d steps. q and k may not be turned yet.
  virtual bool has_content_terms() const { return false; }
  virtual ContentTerms content_terms(const Content&, const Frame&) const { return {}; }

  /// The last position the scheme can represent (the end of a table); unlimited by default.
  virtual double last_position() const { return std::numeric_limits<double>::infinity(); }

  /// Fills the parameters, which are zeros until then. The generator is this scheme's own.
  virtual void initialise(torch::Generator) {}

  /// Called after every optimizer step: puts parameters back within their bounds.
  virtual void constrain() const {}

  /// When each layer has a scheme of its own, what all of them have in common (Transformer-XL's u and v) is held by the first:
  /// registers it there and returns it. Every layer, the first too, then gets it by share() and finds it in shared().
  virtual std::vector<Tensor> register_shared() { return {}; }
  virtual void initialise_shared(torch::Generator) {}
  void share(std::vector<Tensor> tensors) { shared_ = std::move(tensors); }
  const std::vector<Tensor>& shared() const { return shared_; }
  /// The parameters hooks may read: its own and the shared ones, each once.
  std::vector<Tensor> used_parameters() const;

 private:
  std::vector<Tensor> shared_;
};

/// Builds the named scheme. `parameters` are resolved (SchemeInfo::resolve).
std::shared_ptr<Scheme> make_scheme(const std::string& name, const Json& parameters, const ModelShape& shape);

}  // namespace posenc
