// NTK by parts: pairs that turn often within the training length keep their frequency, those that never complete a turn are
// interpolated, those between are mixed. bloc97 2023; Peng et al. 2023 (arXiv:2309.00071), section 3.2.
// The ramp between the two is linear in the index of the pair in the authors' code and linear in its rotations in their paper. Their
// earliest form mixes in NTK-aware frequencies by a second ramp, with constants found on LLaMA.
#include <optional>

#include "extend/extension.h"
#include "extend/rotary.h"

namespace posenc {
namespace {

struct NtkPartsParameters {
  std::optional<double> factor;
  std::string ramp = "code";
  double beta_fast = 32;
  double beta_slow = 1;
};

}  // namespace

template <>
const Schema<NtkPartsParameters>& schema<NtkPartsParameters>() {
  static const Schema<NtkPartsParameters> table =
      Schema<NtkPartsParameters>("NTK-by-parts scaling")
          .field("factor", &NtkPartsParameters::factor,
                 "what the lowest frequencies are divided by; null: window length / training length, at least 1")
          .at_least(1)
          .field("ramp", &NtkPartsParameters::ramp,
                 "code: linear in the pair's index; paper: linear in its rotations; early: the first form, whose constants are "
                 "its own")
          .choices({"code", "paper", "early"})
          .field("beta_fast", &NtkPartsParameters::beta_fast, "pairs that turn so often within the training length are kept")
          .above(0)
          .field("beta_slow", &NtkPartsParameters::beta_slow, "pairs that turn no more often than this are divided by the factor")
          .above(0)
          .check([](const NtkPartsParameters& p, const Reader& r) {
            if (p.beta_fast <= p.beta_slow) r.problem("beta_fast", "must be more than beta_slow");
          });
  return table;
}

#ifndef POSENC_TENSORS

ExtensionInfo ntk_parts_info() {
  ExtensionInfo info;
  info.name = "ntk_parts";
  info.aliases = {"ntk_by_parts"};
  info.title = "NTK-by-parts scaling";
  info.paper = "Peng et al. 2023, arXiv:2309.00071";
  info.misfit = [](const SchemeInfo& scheme) { return needs_rotary("ntk_parts", scheme); };
  return extension_info<NtkPartsParameters>(std::move(info));
}

#else

namespace {

class NtkParts : public Extension {
 public:
  explicit NtkParts(const NtkPartsParameters& p) : parameters_(p) {}

  Frequencies frequencies(const Frequencies& trained, const Lengths& lengths) const override {
    const double scale = lengths.factor(parameters_.factor);
    if (scale == 1) return trained;
    return {scaled(trained, scale, lengths.train), trained.base, trained.magnitude};
  }

 private:
  Tensor scaled(const Frequencies& trained, double scale, std::int64_t train) const {
    const auto& [factor, ramp, fast, slow] = parameters_;
    if (ramp == "paper") return partly_divided(trained.inv_freq, scale, ramp_by_rotations(trained, fast, slow, train));
    if (ramp == "code") return partly_divided(trained.inv_freq, scale, ramp_by_index(trained, fast, slow, train, true));
    const Tensor ntk = ramp_by_index(trained, 1.25, 0.75, train, true), keep = ramp_by_index(trained, 16, 2, train, true);
    const Tensor mixed = (1 - ntk) * trained.inv_freq / scale + ntk * ntk_frequencies(trained, scale);
    return (1 - keep) * mixed + keep * trained.inv_freq;
  }

  NtkPartsParameters parameters_;
};

}  // namespace

std::unique_ptr<Extension> make_ntk_parts(const Json& parameters) {
  return std::make_unique<NtkParts>(from_json<NtkPartsParameters>(parameters));
}

#endif

}  // namespace posenc
