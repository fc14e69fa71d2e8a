// Self-Extend: keys within a neighbour window at their distance, others by groups of positions. Jin et al. 2024 (arXiv:2401.01325).
//   ρ(i, j) = i − j for i − j < W, else ⌊i/G⌋ − ⌊j/G⌋ + W − ⌊W/G⌋
// A window of (L−W)·G + W tokens stays within trained distances. The authors' W/G is a fraction where G does not divide W; here it
// is rounded down, so that every position is whole.
#include <algorithm>
#include <optional>

#include "extend/extension.h"

namespace posenc {
namespace {

struct SelfExtendParameters {
  std::optional<std::int64_t> group, window;
};

}  // namespace

template <>
const Schema<SelfExtendParameters>& schema<SelfExtendParameters>() {
  static const Schema<SelfExtendParameters> table =
      Schema<SelfExtendParameters>("Self-Extend")
          .field("group", &SelfExtendParameters::group,
                 "positions of far keys that count as one; null: the least that keeps all distances within the training length")
          .range(1, 1 << 24)
          .field("window", &SelfExtendParameters::window,
                 "keys nearer than this keep their distance; null: a quarter of the training length")
          .range(1, 1 << 24);
  return table;
}

#ifndef POSENC_TENSORS

ExtensionInfo self_extend_info() {
  ExtensionInfo info;
  info.name = "self_extend";
  info.aliases = {"selfextend"};
  info.title = "Self-Extend: far positions by groups";
  info.paper = "Jin et al. 2024, arXiv:2401.01325";
  info.misfit = [](const SchemeInfo& scheme) { return needs_distances("self_extend", scheme); };
  return extension_info<SelfExtendParameters>(std::move(info));
}

#else

namespace {

class SelfExtend : public Extension {
 public:
  explicit SelfExtend(const SelfExtendParameters& p) : parameters_(p) {}

  std::optional<FarPositions> far(const Frame& frame, const Lengths& lengths) const override {
    const std::int64_t window = parameters_.window.value_or(std::max<std::int64_t>(1, lengths.train / 4));
    const std::int64_t group = parameters_.group.value_or(enough(window, lengths));
    if (group == 1) return {};
    const auto g = static_cast<double>(group);
    const double shift = static_cast<double>(window - window / group);
    return FarPositions{
        static_cast<double>(window), {(frame.queries.values / g).floor() + shift, 0}, {(frame.keys.values / g).floor(), 0}};
  }

 private:
  /// The least G with (L−W)·G + W ≥ window length.
  static std::int64_t enough(std::int64_t window, const Lengths& lengths) {
    const std::int64_t grouped = lengths.train - window;
    if (lengths.window <= lengths.train || grouped <= 0) return 1;
    return (lengths.window - window + grouped - 1) / grouped;
  }

  SelfExtendParameters parameters_;
};

}  // namespace

std::unique_ptr<Extension> make_self_extend(const Json& parameters) {
  return std::make_unique<SelfExtend>(from_json<SelfExtendParameters>(parameters));
}

#endif

}  // namespace posenc
