// Leaky ReRoPE: distances beyond a window grow, but more slowly. Su 2023 (kexue.fm/archives/9708, bojone/rerope).
//   ρ(d) = d for d < w, else w + (d−w)/k:  queries at (i + w·(k−1))/k, keys at j/k
// The authors also scale q by log n; here that is log_n.
#include <algorithm>
#include <optional>

#include "extend/extension.h"
#include "extend/log_n.h"

namespace posenc {
namespace {

struct LeakyReRopeParameters {
  std::optional<std::int64_t> window;
  std::optional<double> k;
  bool log_n = false;
};

}  // namespace

template <>
const Schema<LeakyReRopeParameters>& schema<LeakyReRopeParameters>() {
  static const Schema<LeakyReRopeParameters> table =
      Schema<LeakyReRopeParameters>("Leaky ReRoPE")
          .field("window", &LeakyReRopeParameters::window, "distances from here on are squeezed; null: half the training length")
          .range(1, 1 << 24)
          .field("k", &LeakyReRopeParameters::k,
                 "what distances beyond the window are divided by; null: as much as keeps the longest within the training length")
          .at_least(1)
          .field("log_n", &LeakyReRopeParameters::log_n,
                 "whether q is scaled by max(1, ln(keys seen)/ln(training length)) as well");
  return table;
}

#ifndef POSENC_TENSORS

ExtensionInfo leaky_rerope_info() {
  ExtensionInfo info;
  info.name = "leaky_rerope";
  info.title = "Leaky ReRoPE: distances squeezed beyond a window";
  info.paper = "Su 2023, kexue.fm/archives/9708";
  info.misfit = [](const SchemeInfo& scheme) { return needs_distances("leaky_rerope", scheme); };
  return extension_info<LeakyReRopeParameters>(std::move(info));
}

#else

namespace {

class LeakyReRope : public Extension {
 public:
  explicit LeakyReRope(const LeakyReRopeParameters& p) : parameters_(p) {}

  std::optional<FarPositions> far(const Frame& frame, const Lengths& lengths) const override {
    const std::int64_t window = parameters_.window.value_or(std::max<std::int64_t>(1, lengths.train / 2));
    const double k = parameters_.k.value_or(enough(window, lengths));
    if (k == 1) return {};
    const auto w = static_cast<double>(window);
    return FarPositions{w, {(frame.queries.values + w * (k - 1)) / k, 0}, {frame.keys.values / k, 0}};
  }

  Tensor temperature(const Frame& frame, const Lengths& lengths) const override {
    return parameters_.log_n ? log_n_temperature(frame, lengths.train) : Tensor();
  }

 private:
  /// The k for which the distance window length − 1 becomes training length − 1.
  static double enough(std::int64_t window, const Lengths& lengths) {
    if (lengths.window <= lengths.train || window >= lengths.train - 1) return 1;
    return static_cast<double>(lengths.window - 1 - window) / static_cast<double>(lengths.train - 1 - window);
  }

  LeakyReRopeParameters parameters_;
};

}  // namespace

std::unique_ptr<Extension> make_leaky_rerope(const Json& parameters) {
  return std::make_unique<LeakyReRope>(from_json<LeakyReRopeParameters>(parameters));
}

#endif

}  // namespace posenc
