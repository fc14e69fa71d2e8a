// NTK-mixed: every frequency is divided, by more the lower it is, and the lowest by the factor. Su 2023 (kexue.fm/archives/9706).
//   θ'_k = θ_k·exp(−a·(k+1)^b),  a = ln s / (R/2)^b,  b = 0.75
#include <cmath>
#include <optional>

#include "extend/extension.h"

namespace posenc {
namespace {

struct NtkMixedParameters {
  std::optional<double> factor;
  double power = 0.75;
};

}  // namespace

template <>
const Schema<NtkMixedParameters>& schema<NtkMixedParameters>() {
  static const Schema<NtkMixedParameters> table =
      Schema<NtkMixedParameters>("NTK-mixed scaling")
          .field("factor", &NtkMixedParameters::factor,
                 "what the lowest frequency is divided by; null: window length / training length, at least 1")
          .at_least(1)
          .field("power", &NtkMixedParameters::power, "how the logarithm of the divisor grows with the index of the pair")
          .above(0);
  return table;
}

#ifndef POSENC_TENSORS

ExtensionInfo ntk_mixed_info() {
  ExtensionInfo info;
  info.name = "ntk_mixed";
  info.title = "NTK-mixed scaling";
  info.paper = "Su 2023, kexue.fm/archives/9706";
  info.misfit = [](const SchemeInfo& scheme) { return needs_rotary("ntk_mixed", scheme); };
  return extension_info<NtkMixedParameters>(std::move(info));
}

#else

namespace {

class NtkMixed : public Extension {
 public:
  explicit NtkMixed(const NtkMixedParameters& p) : parameters_(p) {}

  Frequencies frequencies(const Frequencies& trained, const Lengths& lengths) const override {
    const double scale = lengths.factor(parameters_.factor);
    if (scale == 1) return trained;
    const auto pairs = static_cast<double>(trained.inv_freq.size(0));
    const Tensor k = torch::arange(1, trained.inv_freq.size(0) + 1, torch::kFloat64);
    const double a = std::log(scale) / std::pow(pairs, parameters_.power);
    return {trained.inv_freq * torch::exp(-a * k.pow(parameters_.power)), trained.base, trained.magnitude};
  }

 private:
  NtkMixedParameters parameters_;
};

}  // namespace

std::unique_ptr<Extension> make_ntk_mixed(const Json& parameters) {
  return std::make_unique<NtkMixed>(from_json<NtkMixedParameters>(parameters));
}

#endif

}  // namespace posenc
