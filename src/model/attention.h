#pragma once
// Causal attention with a positional scheme: the only place where the hooks of scheme.h meet.
//
//   AttentionPlan plan(scheme, traits, frame, options);   // once per forward and scheme: what all its layers share
//   y = plan({q, k, v, x, temperature, sink});            // every layer: [B, H, Q, D]
//
// Three paths, held to the same numbers by the conformance suite:
//   reference  materialises the logits [B, H, Q, K]; any scheme, any dtype; the definition
//   blocked    walks blocks of queries over the keys they may see, so that memory is O(block·K) whatever the length;
//              recomputes each block in backward instead of keeping its logits
//   fused      kernels/attention.h: tiles, float32, whatever the scheme can say in tables (fuses)

#include "model/fused_attention.h"
#include "schemes/scheme.h"

namespace posenc {

enum class AttentionPath { kAuto, kReference, kBlocked, kFused };

AttentionPath attention_path(const std::string& name);  ///< "auto" | "reference" | "blocked" | "fused"
const char* attention_path_name(AttentionPath path);

/// Logits beyond this many bytes are never materialised at once: in training, where backward keeps them, and in inference, where
/// small blocks stay in cache.
inline constexpr std::int64_t kTrainingLogitsBytes = std::int64_t{64} << 20;
inline constexpr std::int64_t kInferenceLogitsBytes = std::int64_t{8} << 20;

/// What the logits of one call measure.
struct LogitsShape {
  std::int64_t batch = 1, heads = 1, queries = 1, keys = 1, element_bytes = 4;
  std::int64_t row_bytes() const { return batch * heads * keys * element_bytes; }
};

/// How many queries a block holds within the limits above.
std::int64_t attention_block_rows(const LogitsShape& shape, bool training);

/// Whether the kernel gives what the scheme does: float32, a softmax, and positions and content that enter by tables.
bool fuses(const Scheme& scheme, const SchemeTraits& traits, const Frame& frame, torch::ScalarType dtype);

/// The part of the logits that depends on positions alone, [H or 1, Q, K]: the scheme's bias for the keys a query may see, −∞ for
/// those it may not.
Tensor masked_bias(const Scheme& scheme, const Frame& frame, torch::ScalarType dtype);

struct AttentionOptions {
  /// kAuto: fused where it fits, else the reference while its logits stay within the limits, else blocked. kFused is no different
  /// but for its name: what does not fit takes the other paths.
  AttentionPath path = AttentionPath::kAuto;
  torch::ScalarType dtype = torch::kFloat32;
  std::int64_t batch = 1, heads = 1;  ///< size the logits
  std::int64_t block_rows = 0;        ///< queries of a block; 0: as many as the limits above allow
  int threads = 1;                    ///< of the kernel, within one call
};

/// The path that `options` come to.
AttentionPath choose_attention(const Scheme& scheme, const SchemeTraits& traits, const Frame& frame,
                               const AttentionOptions& options);

/// What a layer attends with. Neither turned nor repeated yet: Hkv key/value heads serve H / Hkv consecutive heads each.
struct AttentionInput {
  Tensor q;            ///< [B, H, Q, D]
  Tensor k, v;         ///< [B, Hkv, K, D]
  Tensor x;            ///< [B, K, C] the attention's normalised input
  Tensor temperature;  ///< τ [1 or H, Q, 1], a factor on q; undefined: none
  Tensor sink;         ///< [H] a logit that takes its share of the softmax and has no value; undefined: none
};

/// The turns of a frame's queries and keys, in the activations' dtype, where the scheme's turn is all of its rotate.
struct Turns {
  Turn query, key;
  Turns() = default;
  Turns(const Scheme& scheme, const Frame& frame, torch::ScalarType dtype);
};

/// masked_bias of a frame and, where it has far positions, of those.
struct MaskedBias {
  Tensor near, far;
  MaskedBias() = default;
  MaskedBias(const Scheme& scheme, const Frame& frame, torch::ScalarType dtype);
};

class AttentionPlan {
 public:
  AttentionPlan(const Scheme& scheme, const SchemeTraits& traits, Frame frame, const AttentionOptions& options);

  /// → y [B, H, Q, D]
  Tensor operator()(const AttentionInput& input) const;

  const Frame& frame() const { return frame_; }
  AttentionPath path() const { return path_; }
  bool content_dependent() const { return traits_.content_dependent; }

 private:
  Tensor fused(const AttentionInput& input) const;
  Tensor step_by_step(const AttentionInput& input) const;
  Tensor rotated(const Tensor& x, Side side, const Turns& turns, const Frame& frame) const;

  const Scheme* scheme_;
  SchemeTraits traits_;
  Frame frame_;
  AttentionOptions options_;
  AttentionPath path_;
  Turns turns_, far_turns_;
  MaskedBias bias_;   ///< reference only
  FusedTerms terms_;  ///< fused only
};

}  // namespace posenc
