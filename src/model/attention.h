#pragma once
// Causal attention with a positional scheme: the only place where the hooks of scheme.h meet.
//
//   AttentionPlan plan(scheme, frame, path, …);   // once per forward and scheme: mask and bias, which all its layers share
//   y = plan(content);                            // every layer: [B, H, Q, D]
//
// Two paths, held to the same numbers by the conformance suite:
//   reference  materialises the logits [B, H, Q, K]; any scheme, any dtype; the definition
//   blocked    walks blocks of queries over the keys they may see, so that memory is O(block·K) whatever the length;
//              recomputes each block in backward instead of keeping its logits

#include "schemes/scheme.h"

namespace posenc {

enum class AttentionPath { kAuto, kReference, kBlocked };

AttentionPath attention_path(const std::string& name);  ///< "auto" | "reference" | "blocked"
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

/// How many queries a block holds within the limits above, and whether auto means blocked then.
std::int64_t attention_block_rows(const LogitsShape& shape, bool training);
AttentionPath choose_attention(AttentionPath wanted, const LogitsShape& shape, bool training);

/// The part of the logits that depends on positions alone, [H or 1, Q, K]: the scheme's bias for the keys a query may see, −∞ for
/// those it may not.
Tensor masked_bias(const Scheme& scheme, const Frame& frame, torch::ScalarType dtype);

struct AttentionOptions {
  AttentionPath path = AttentionPath::kAuto;
  torch::ScalarType dtype = torch::kFloat32;
  std::int64_t batch = 1, heads = 1;  ///< size the logits, which decide what kAuto becomes
  std::int64_t block_rows = 0;        ///< queries of a block; 0: as many as the limits above allow
};

class AttentionPlan {
 public:
  /// `content_dependent` is the scheme's trait.
  AttentionPlan(const Scheme& scheme, bool content_dependent, Frame frame, const AttentionOptions& options);

  /// q [B, H, Q, D] and k, v [B, H, K, D], rotated where the scheme rotates → y [B, H, Q, D]. `sink` [H] is a logit that takes
  /// its share of the softmax and has no value; undefined: none.
  Tensor operator()(const Content& content, const Tensor& sink = {}) const;

  const Frame& frame() const { return frame_; }

  AttentionPath path() const { return path_; }

 private:
  const Scheme* scheme_;
  bool content_dependent_;
  Frame frame_;
  AttentionPath path_;
  std::int64_t block_rows_;
  Tensor bias_;  ///< reference only: [H or 1, Q, K]
};

}  // namespace posenc
