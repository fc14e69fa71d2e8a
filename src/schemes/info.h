#pragma once
// What a positional scheme *is*: its names, paper, traits, parameters and rules, as values and without torch. Config parsing,
// `posenc schemes`, the JSON Schema, sweeps, reports and the conformance suite are driven by it. What a scheme *computes* is in
// scheme.h.
//
// A scheme is one file, src/schemes/<name>.cpp, plus one line in list.def. The file is compiled twice: into posenc_core for
// `<name>_info()` and, with POSENC_TENSORS defined, into posenc_nn for `make_<name>()`; its parameter struct and table serve
// both.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/registered.h"
#include "core/schema.h"

namespace posenc {

/// The sizes a scheme may depend on.
struct ModelShape {
  std::int64_t layers = 1, d_model = 1, heads = 1, kv_heads = 1, head_dim = 1;
  std::int64_t train_length = 1;
  std::int64_t positions = 1;  ///< training draws positions below this: train_length, or more with a sampler
};

/// Claims about a scheme; the conformance suite tests each on every registered scheme.
struct SchemeTraits {
  bool relative = false;           ///< logits do not change when every position is shifted by the same amount
  bool bounded = false;            ///< refuses positions at or beyond its table
  bool real_positions = false;     ///< meaningful at fractional positions (position interpolation fits)
  bool rotary = false;             ///< turns by Frame::rescaled frequencies
  bool per_layer = false;          ///< each layer has parameters of its own (by default)
  bool content_dependent = false;  ///< its logits see more of the content than q·k
  bool softmax = true;             ///< its weights are a softmax, so that sinks have a meaning
  std::string hooks;               ///< the hooks of scheme.h it overrides: "embed", "rotate", "distance_bias", …

  /// Whether it adds positions to the embeddings, which is once for the whole model.
  bool embeds() const { return hooks.find("embed") != std::string::npos; }
};

/// One registered scheme.
struct SchemeInfo : RegisteredInfo {
  SchemeTraits traits;
  std::string scale;  ///< where its bias stands against 1/√head_dim: "after the 1/√D scale", or "" without a bias
  std::function<void(const Json&, const ModelShape&, const Reader&)> check;  ///< rules that need the model's sizes
};

/// Completes `info` from the table of the scheme's parameter struct. `check` may be null.
template <class Parameters>
SchemeInfo scheme_info(SchemeInfo info, void (*check)(const Parameters&, const ModelShape&, const Reader&) = nullptr) {
  take_parameters<Parameters>(info);
  info.check = [check](const Json& resolved, const ModelShape& shape, const Reader& reader) {
    if (check) check(from_json<Parameters>(resolved), shape, reader);
  };
  return info;
}

/// A scheme without parameters.
struct NoParameters {};

/// Every registered scheme, in the order of list.def.
const std::vector<SchemeInfo>& schemes();

}  // namespace posenc
