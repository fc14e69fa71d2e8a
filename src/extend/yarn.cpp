// YaRN: NTK by parts, and a magnitude m on cos and sin of queries and keys that sharpens the softmax (logits times m²). Peng et al.
// 2023 (arXiv:2309.00071), eq. 22; the ramp is that of the authors' code.
//   m = 0.1·ln s + 1, or with DeepSeek's two numbers (0.1·mscale·ln s + 1) / (0.1·mscale_all_dim·ln s + 1)
// A configured factor counts at every length, as a checkpoint declares it; without one the factor follows the window (dynamic YaRN).
#include <cmath>
#include <optional>

#include "extend/extension.h"
#include "extend/rotary.h"

namespace posenc {
namespace {

struct YarnParameters {
  std::optional<double> factor;
  double beta_fast = 32;
  double beta_slow = 1;
  bool truncate = true;
  std::optional<double> attention_factor, mscale, mscale_all_dim;
};

}  // namespace

template <>
const Schema<YarnParameters>& schema<YarnParameters>() {
  static const Schema<YarnParameters> table =
      Schema<YarnParameters>("YaRN")
          .field("factor", &YarnParameters::factor,
                 "what the lowest frequencies are divided by; null: window length / training length, at least 1")
          .at_least(1)
          .field("beta_fast", &YarnParameters::beta_fast, "pairs that turn so often within the training length are kept")
          .above(0)
          .field("beta_slow", &YarnParameters::beta_slow, "pairs that turn no more often than this are divided by the factor")
          .above(0)
          .field("truncate", &YarnParameters::truncate, "whether the ends of the ramp are rounded to whole pairs")
          .field("attention_factor", &YarnParameters::attention_factor,
                 "the magnitude of cos and sin; null: 0.1*ln(factor) + 1, or by mscale and mscale_all_dim")
          .above(0)
          .field("mscale", &YarnParameters::mscale,
                 "with mscale_all_dim: (0.1*mscale*ln(factor) + 1) / (the same of mscale_all_dim)")
          .above(0)
          .field("mscale_all_dim", &YarnParameters::mscale_all_dim, "see mscale")
          .above(0)
          .check([](const YarnParameters& p, const Reader& r) {
            if (p.beta_fast <= p.beta_slow) r.problem("beta_fast", "must be more than beta_slow");
            if (p.mscale.has_value() != p.mscale_all_dim.has_value())
              r.problem(p.mscale ? "mscale" : "mscale_all_dim", "mscale and mscale_all_dim come together");
          });
  return table;
}

#ifndef POSENC_TENSORS

ExtensionInfo yarn_info() {
  ExtensionInfo info;
  info.name = "yarn";
  info.title = "YaRN";
  info.paper = "Peng et al. 2023, arXiv:2309.00071";
  info.misfit = [](const SchemeInfo& scheme) { return needs_rotary("yarn", scheme); };
  return extension_info<YarnParameters>(std::move(info));
}

#else

namespace {

class Yarn : public Extension {
 public:
  explicit Yarn(const YarnParameters& p) : parameters_(p) {}

  Frequencies frequencies(const Frequencies& trained, const Lengths& lengths) const override {
    const YarnParameters& p = parameters_;
    const double scale = lengths.factor(p.factor);
    Frequencies scaled = trained;
    scaled.magnitude = trained.magnitude * magnitude(scale);
    if (scale == 1) return scaled;
    const Tensor keep = ramp_by_index(trained, p.beta_fast, p.beta_slow, lengths.train, p.truncate);
    scaled.inv_freq = partly_divided(trained.inv_freq, scale, keep);
    return scaled;
  }

 private:
  double magnitude(double scale) const {
    if (parameters_.attention_factor) return *parameters_.attention_factor;
    const auto grown = [&](double by) { return 0.1 * by * std::log(scale) + 1; };
    return parameters_.mscale ? grown(*parameters_.mscale) / grown(*parameters_.mscale_all_dim) : grown(1);
  }

  YarnParameters parameters_;
};

}  // namespace

std::unique_ptr<Extension> make_yarn(const Json& parameters) {
  return std::make_unique<Yarn>(from_json<YarnParameters>(parameters));
}

#endif

}  // namespace posenc
