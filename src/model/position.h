#pragma once
// The "position" member of a model: which scheme, and the axes that combine with any scheme. No torch.
//
//   "rope"
//   {"scheme": "rope", "base": 500, "window": 64, "temperature": "log_n", "sinks": "learned", "sampler": "randomized"}
//   {"scheme": "rope", "window": 64, "layers": [{"repeat": 3}, {"scheme": "none", "window": null}]}     three of four layers local
//
// "layers" is a pattern, repeated until every layer has its entry; an entry changes what it names and keeps the rest of what
// stands beside "layers".

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/registered.h"
#include "core/schema.h"
#include "data/sampler.h"
#include "schemes/info.h"

namespace posenc {

/// A factor τ on the logits q·k of each query. n is the number of keys the query sees, i its index, L the training length.
///   log_n   max(1, ln n / ln L) beyond training (inference), or ln n / ln L always (training). Su 2021; Chiang, Cholak 2022
///           (arXiv:2202.12172)
///   ssmax   s·ln n, s learned per layer and head. Nakanishi 2025 (arXiv:2501.19399)
///   llama4  1 + scale·ln(1 + ⌊(i + 1)/floor⌋) outside training. Meta, llama-models
struct TemperatureConfig {
  std::string method = "none";
  std::string form = "inference";
  std::optional<double> init;
  std::optional<std::int64_t> floor;
  double scale = 0.1;
  bool operator==(const TemperatureConfig&) const = default;
};

/// Where attention may go instead of to a key.
///   zero     a logit of 0 without a value ("softmax off by one")
///   learned  the same with a logit learned per layer and head (gpt-oss)
///   token    a learned token in front of every window (Xiao et al. 2023, arXiv:2309.17453); of the whole model
/// keep_first keys stay visible beyond window and chunk.
struct SinkConfig {
  std::string type = "none";
  std::int64_t keep_first = 0;
  bool operator==(const SinkConfig&) const = default;
};

/// The axes of one layer.
struct LayerAxes {
  std::optional<std::int64_t> window, chunk;
  TemperatureConfig temperature;
  SinkConfig sinks;
  bool operator==(const LayerAxes&) const = default;
};

/// What one layer does about positions.
struct LayerPosition : Registered {
  LayerAxes axes;
};

struct LayerEntry : LayerPosition {
  std::int64_t repeat = 1;
};

struct PositionConfig : LayerPosition {
  PositionConfig() { name = "none"; }

  SamplerConfig sampler;
  std::vector<LayerEntry> pattern;  ///< the key "layers"; empty: all layers alike

  /// One entry per layer.
  std::vector<LayerPosition> plan(std::int64_t layers) const;
  /// The distinct schemes of the plan, the one beside "layers" included only where a layer has it.
  std::vector<const SchemeInfo*> used_schemes() const;
  /// What tables show: "rope", "rope(base=500, window=64)", "[3*rope(window=64), none]".
  std::string label() const;
  /// Rules that need the model's sizes.
  void check(const ModelShape& shape, const Reader& reader) const;
};

const SchemeInfo& scheme_of(const Registered& choice);

/// An axis as people read about it: the key, what it does, its parameters.
struct AxisDoc {
  std::string name, help;
  std::vector<FieldDoc> parameters;
};
const std::vector<AxisDoc>& position_axes();

/// The members of "$defs" that descriptions of a position refer to: once in a document, however many positions it has.
Json position_definitions();

template <>
struct Codec<PositionConfig> {
  static bool read(const Json&, PositionConfig&, const FieldRule&, const Reader&);
  static Json write(const PositionConfig&);
  static Json describe(const FieldRule&);
  static std::string type_name() { return "scheme name or object"; }
};

}  // namespace posenc
