// ReRoPE: every key further than a window is seen at the distance of the window. Su 2023 (kexue.fm/archives/9708, bojone/rerope).
//   ρ(d) = d for d < w, else w
// The authors also scale q by log n; here that is log_n.
#include "extend/rerope.h"

#include <algorithm>
#include <optional>

#include "extend/extension.h"
#include "extend/log_n.h"

namespace posenc {
namespace {

struct ReRopeParameters {
  std::optional<std::int64_t> window;
  bool log_n = false;
};

}  // namespace

template <>
const Schema<ReRopeParameters>& schema<ReRopeParameters>() {
  static const Schema<ReRopeParameters> table =
      Schema<ReRopeParameters>("ReRoPE")
          .field("window", &ReRopeParameters::window, "distances from here on are seen as this; null: half the training length")
          .range(1, 1 << 24)
          .field("log_n", &ReRopeParameters::log_n, "whether q is scaled by max(1, ln(keys seen)/ln(training length)) as well");
  return table;
}

#ifndef POSENC_TENSORS

ExtensionInfo rerope_info() {
  ExtensionInfo info;
  info.name = "rerope";
  info.title = "ReRoPE: distances clipped at a window";
  info.paper = "Su 2023, kexue.fm/archives/9708";
  info.within_training = true;
  info.misfit = [](const SchemeInfo& scheme) { return needs_distances("rerope", scheme); };
  return extension_info<ReRopeParameters>(std::move(info));
}

#else

std::optional<FarPositions> clipped_distances(const Frame& frame, double limit) {
  const double farthest = frame.queries.values.max().item<double>() - frame.keys.values.min().item<double>();
  if (farthest <= limit) return {};
  return FarPositions{limit, {torch::full_like(frame.queries.values, limit), 0}, {torch::zeros_like(frame.keys.values), 0}};
}

namespace {

class ReRope : public Extension {
 public:
  explicit ReRope(const ReRopeParameters& p) : parameters_(p) {}

  std::optional<FarPositions> far(const Frame& frame, const Lengths& lengths) const override {
    return clipped_distances(frame,
                             static_cast<double>(parameters_.window.value_or(std::max<std::int64_t>(1, lengths.train / 2))));
  }

  Tensor temperature(const Frame& frame, const Lengths& lengths) const override {
    return parameters_.log_n ? log_n_temperature(frame, lengths.train) : Tensor();
  }

 private:
  ReRopeParameters parameters_;
};

}  // namespace

std::unique_ptr<Extension> make_rerope(const Json& parameters) {
  return std::make_unique<ReRope>(from_json<ReRopeParameters>(parameters));
}

#endif

}  // namespace posenc
