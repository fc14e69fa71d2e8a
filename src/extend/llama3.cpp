// Llama 3.1's scaling: by wavelength λ = 2π/θ, short ones are kept, long ones divided by the factor s, those between mixed. Meta 2024
// (llama-models, apply_scaling).
//   θ' = θ for λ < L/h;  θ/s for λ > L/l;  else (1−t)·θ/s + t·θ with t = (L/λ − l)/(h − l);  l, h = low and high frequency factor
#include <optional>

#include "extend/extension.h"
#include "extend/rotary.h"

namespace posenc {
namespace {

struct Llama3Parameters {
  std::optional<double> factor;
  double low_freq_factor = 1;
  double high_freq_factor = 4;
};

}  // namespace

template <>
const Schema<Llama3Parameters>& schema<Llama3Parameters>() {
  static const Schema<Llama3Parameters> table =
      Schema<Llama3Parameters>("Llama 3.1 scaling")
          .field("factor", &Llama3Parameters::factor,
                 "what the lowest frequencies are divided by; null: window length / training length, at least 1")
          .at_least(1)
          .field("low_freq_factor", &Llama3Parameters::low_freq_factor,
                 "pairs that turn less often than this within the training length are divided by factor")
          .above(0)
          .field("high_freq_factor", &Llama3Parameters::high_freq_factor, "pairs that turn more often than this are kept")
          .above(0)
          .check([](const Llama3Parameters& p, const Reader& r) {
            if (p.high_freq_factor <= p.low_freq_factor) r.problem("high_freq_factor", "must be more than low_freq_factor");
          });
  return table;
}

#ifndef POSENC_TENSORS

ExtensionInfo llama3_info() {
  ExtensionInfo info;
  info.name = "llama3";
  info.title = "Llama 3.1 scaling";
  info.paper = "Meta 2024, llama-models";
  info.misfit = [](const SchemeInfo& scheme) { return needs_rotary("llama3", scheme); };
  return extension_info<Llama3Parameters>(std::move(info));
}

#else

namespace {

class Llama3 : public Extension {
 public:
  explicit Llama3(const Llama3Parameters& p) : parameters_(p) {}

  Frequencies frequencies(const Frequencies& trained, const Lengths& lengths) const override {
    const double scale = lengths.factor(parameters_.factor);
    if (scale == 1) return trained;
    // L/λ is the number of turns within L, so this is the ramp of YaRN's paper between other ends.
    const Tensor keep = ramp_by_rotations(trained, parameters_.high_freq_factor, parameters_.low_freq_factor, lengths.train);
    return {partly_divided(trained.inv_freq, scale, keep), trained.base, trained.magnitude};
  }

 private:
  Llama3Parameters parameters_;
};

}  // namespace

std::unique_ptr<Extension> make_llama3(const Json& parameters) {
  return std::make_unique<Llama3>(from_json<Llama3Parameters>(parameters));
}

#endif

}  // namespace posenc
