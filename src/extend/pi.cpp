// Position interpolation: positions are squeezed into the trained range. Chen et al. 2023 (arXiv:2306.15595); on a table,
// Dosovitskiy et al. 2021; on ALiBi it divides the distances, which is the slope scaling of Al-Khateeb et al. 2023
// (arXiv:2310.13017).
#include <optional>

#include "extend/extension.h"

namespace posenc {
namespace {

struct PiParameters {
  std::optional<double> factor;
  std::string align = "auto";
};

}  // namespace

template <>
const Schema<PiParameters>& schema<PiParameters>() {
  static const Schema<PiParameters> table =
      Schema<PiParameters>("position interpolation")
          .field("factor", &PiParameters::factor,
                 "positions are divided by this; null: window length / training length, at least 1")
          .at_least(1)
          .field("align", &PiParameters::align,
                 "scale: p/factor; corners: p*(L-1)/(T-1), which keeps both ends of a table of L rows; auto: corners for bounded "
                 "schemes")
          .choices({"auto", "scale", "corners"})
          .check([](const PiParameters& p, const Reader& r) {
            if (p.factor && p.align == "corners")
              r.problem("align", "corners follows from the lengths; leave out factor or use scale");
          });
  return table;
}

#ifndef POSENC_TENSORS

ExtensionInfo pi_info() {
  ExtensionInfo info;
  info.name = "pi";
  info.aliases = {"linear", "interpolation"};
  info.title = "position interpolation";
  info.paper = "Chen et al. 2023, arXiv:2306.15595";
  info.misfit = [](const SchemeInfo& scheme) -> std::string {
    if (scheme.traits.real_positions) return "";
    return "pi needs a scheme that is defined at fractional positions; " + scheme.name + " is not";
  };
  return extension_info<PiParameters>(std::move(info));
}

#else

namespace {

class Pi : public Extension {
 public:
  explicit Pi(const PiParameters& p) : parameters_(p) {}

  Positions remap(const Positions& positions, const Lengths& lengths) const override {
    const auto [numerator, denominator] = ratio(lengths);
    // Divided last: a rounded factor would take the last position an ulp beyond the end of a table.
    return {positions.values * numerator / denominator, positions.spacing * numerator / denominator};
  }

 private:
  std::pair<double, double> ratio(const Lengths& lengths) const {
    if (parameters_.factor && parameters_.align != "corners") return {1, *parameters_.factor};
    if (lengths.window <= lengths.train) return {1, 1};
    const auto train = static_cast<double>(lengths.train), window = static_cast<double>(lengths.window);
    const bool bounded = std::isfinite(lengths.last_position);
    if (parameters_.align == "corners" || (parameters_.align == "auto" && bounded)) return {train - 1, window - 1};
    return {train, window};
  }

  PiParameters parameters_;
};

}  // namespace

std::unique_ptr<Extension> make_pi(const Json& parameters) { return std::make_unique<Pi>(from_json<PiParameters>(parameters)); }

#endif

}  // namespace posenc
