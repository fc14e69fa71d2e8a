// STRING: large distances, which training saw rarely, are replaced by shorter ones. An et al. 2024 (arXiv:2410.18745).
//   ρ(d) = d for d < S, else d − S + W
// Beyond L + S − W tokens distances leave the trained range again.
#include <algorithm>
#include <optional>

#include "extend/extension.h"

namespace posenc {
namespace {

struct StringParameters {
  std::optional<std::int64_t> shift, window;
};

}  // namespace

template <>
const Schema<StringParameters>& schema<StringParameters>() {
  static const Schema<StringParameters> table =
      Schema<StringParameters>("STRING")
          .field("shift", &StringParameters::shift,
                 "S: distances from here on are seen as d - shift + window; null: half the training length")
          .range(1, 1 << 24)
          .field("window", &StringParameters::window, "W: what the distance `shift` is seen as; null: shift/8")
          .range(0, 1 << 24)
          .check([](const StringParameters& p, const Reader& r) {
            if (p.shift && p.window && *p.window > *p.shift) r.problem("window", "is at most shift");
          });
  return table;
}

#ifndef POSENC_TENSORS

ExtensionInfo string_info() {
  ExtensionInfo info;
  info.name = "string";
  info.title = "STRING: far distances shifted into the trained range";
  info.paper = "An et al. 2024, arXiv:2410.18745";
  info.within_training = true;
  info.misfit = [](const SchemeInfo& scheme) { return needs_distances("string", scheme); };
  return extension_info<StringParameters>(std::move(info));
}

#else

namespace {

class String : public Extension {
 public:
  explicit String(const StringParameters& p) : parameters_(p) {}

  std::optional<FarPositions> far(const Frame& frame, const Lengths& lengths) const override {
    const std::int64_t shift = parameters_.shift.value_or(std::max<std::int64_t>(1, lengths.train / 2));
    const std::int64_t window = parameters_.window.value_or(shift / 8);
    if (window == shift) return {};
    return FarPositions{static_cast<double>(shift), {frame.queries.values - static_cast<double>(shift - window), 0}, frame.keys};
  }

 private:
  StringParameters parameters_;
};

}  // namespace

std::unique_ptr<Extension> make_string(const Json& parameters) {
  return std::make_unique<String>(from_json<StringParameters>(parameters));
}

#endif

}  // namespace posenc
