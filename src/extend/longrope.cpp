// LongRoPE: every pair's frequency is divided by a number of its own, found by search. Ding et al. 2024 (arXiv:2402.13753).
//   θ'_k = θ_k/λ_k, λ from short_factor within the training length and from long_factor beyond;  m = sqrt(1 + ln s / ln L)
// The first `unscaled` positions (the paper's n̂) turn by the trained frequencies, as with microsoft/LongRoPE's start_token_idx.
#include <cmath>
#include <optional>
#include <vector>

#include "extend/extension.h"
#ifdef POSENC_TENSORS
#include "core/error.h"
#endif

namespace posenc {
namespace {

struct LongRopeParameters {
  std::vector<double> long_factor;
  std::optional<std::vector<double>> short_factor;
  std::optional<double> factor, attention_factor;
  std::int64_t unscaled = 0;
};

}  // namespace

template <>
const Schema<LongRopeParameters>& schema<LongRopeParameters>() {
  static const Schema<LongRopeParameters> table =
      Schema<LongRopeParameters>("LongRoPE")
          .field("long_factor", &LongRopeParameters::long_factor,
                 "divisors of the frequencies beyond the training length, one for each pair of dims, highest frequency first")
          .required()
          .above(0)
          .field("short_factor", &LongRopeParameters::short_factor, "the same within the training length; null: ones")
          .above(0)
          .field("factor", &LongRopeParameters::factor,
                 "s of the magnitude sqrt(1 + ln s / ln L); null: window length / training length, at least 1")
          .at_least(1)
          .field("attention_factor", &LongRopeParameters::attention_factor, "the magnitude itself, in place of that")
          .above(0)
          .field("unscaled", &LongRopeParameters::unscaled, "how many positions, from 0 on, keep the trained frequencies")
          .at_least(0);
  return table;
}

#ifndef POSENC_TENSORS

ExtensionInfo longrope_info() {
  ExtensionInfo info;
  info.name = "longrope";
  info.aliases = {"su"};
  info.title = "LongRoPE";
  info.paper = "Ding et al. 2024, arXiv:2402.13753";
  info.misfit = [](const SchemeInfo& scheme) { return needs_rotary("longrope", scheme); };
  return extension_info<LongRopeParameters>(std::move(info));
}

#else

namespace {

class LongRope : public Extension {
 public:
  explicit LongRope(const LongRopeParameters& p) : parameters_(p) {}

  Frequencies frequencies(const Frequencies& trained, const Lengths& lengths) const override {
    check("long_factor", parameters_.long_factor, trained);
    if (parameters_.short_factor) check("short_factor", *parameters_.short_factor, trained);
    const bool beyond = lengths.window > lengths.train;
    Frequencies scaled = trained;
    scaled.magnitude = trained.magnitude * magnitude(lengths);
    if (beyond || parameters_.short_factor) {
      const std::vector<double>& divisors = beyond ? parameters_.long_factor : *parameters_.short_factor;
      scaled.inv_freq = trained.inv_freq / torch::tensor(divisors, torch::kFloat64);
      scaled.first = static_cast<double>(parameters_.unscaled);
      scaled.first_inv_freq = trained.inv_freq;
    }
    return scaled;
  }

 private:
  static void check(const std::string& key, const std::vector<double>& divisors, const Frequencies& trained) {
    if (static_cast<std::int64_t>(divisors.size()) == trained.inv_freq.size(0)) return;
    throw ConfigError("longrope: " + key + " has " + std::to_string(divisors.size()) + " numbers, the model turns " +
                      std::to_string(trained.inv_freq.size(0)) + " pairs of dims");
  }

  double magnitude(const Lengths& lengths) const {
    if (parameters_.attention_factor) return *parameters_.attention_factor;
    const double scale = lengths.factor(parameters_.factor);
    return scale == 1 ? 1 : std::sqrt(1 + std::log(scale) / std::log(static_cast<double>(lengths.train)));
  }

  LongRopeParameters parameters_;
};

}  // namespace

std::unique_ptr<Extension> make_longrope(const Json& parameters) {
  return std::make_unique<LongRope>(from_json<LongRopeParameters>(parameters));
}

#endif

}  // namespace posenc
