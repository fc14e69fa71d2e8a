// StreamingLLM: a cache of the first keys (attention sinks) and the last ones, with positions counted within the cache. Xiao et al.
// 2023 (arXiv:2309.17453). The last keys keep their distances; a query that is further from the first ones than the cache is long
// sees them as if it stood at the cache's end. It keeps a model stable at any length and shows it no more context than the cache.
#include <algorithm>
#include <optional>

#include "extend/extension.h"
#include "extend/visible.h"

namespace posenc {
namespace {

struct StreamingParameters {
  std::int64_t sinks = 4;
  std::optional<std::int64_t> window;
};

}  // namespace

template <>
const Schema<StreamingParameters>& schema<StreamingParameters>() {
  static const Schema<StreamingParameters> table =
      Schema<StreamingParameters>("StreamingLLM")
          .field("sinks", &StreamingParameters::sinks, "the first keys, which stay in the cache")
          .range(0, 1 << 24)
          .field("window", &StreamingParameters::window,
                 "the last keys, which are in the cache; null: what the training length leaves beside the sinks")
          .range(1, 1 << 24);
  return table;
}

#ifndef POSENC_TENSORS

ExtensionInfo streaming_info() {
  ExtensionInfo info;
  info.name = "streaming";
  info.aliases = {"streaming_llm"};
  info.title = "StreamingLLM: sinks and a window, positions within the cache";
  info.paper = "Xiao et al. 2023, arXiv:2309.17453";
  info.misfit = [](const SchemeInfo& scheme) { return scheme.traits.hooks.empty() ? "" : needs_distances("streaming", scheme); };
  return extension_info<StreamingParameters>(std::move(info));
}

#else

namespace {

class Streaming : public Extension {
 public:
  explicit Streaming(const StreamingParameters& p) : parameters_(p) {}

  Visibility visible(const Visibility& trained, const Lengths& lengths) const override {
    return fits(lengths) ? trained : narrowed(trained, window(lengths), parameters_.sinks);
  }

  std::optional<FarPositions> far(const Frame& frame, const Lengths& lengths) const override {
    if (fits(lengths) || parameters_.sinks == 0) return {};
    const auto last = static_cast<double>(parameters_.sinks + window(lengths) - 1);
    return FarPositions{static_cast<double>(window(lengths)), {frame.queries.values.clamp_max(last), 0}, frame.keys};
  }

 private:
  std::int64_t window(const Lengths& lengths) const {
    return parameters_.window.value_or(std::max<std::int64_t>(1, lengths.train - parameters_.sinks));
  }
  /// Whether the whole window stays in the cache.
  bool fits(const Lengths& lengths) const { return lengths.window <= parameters_.sinks + window(lengths); }

  StreamingParameters parameters_;
};

}  // namespace

std::unique_ptr<Extension> make_streaming(const Json& parameters) {
  return std::make_unique<Streaming>(from_json<StreamingParameters>(parameters));
}

#endif

}  // namespace posenc
