// The temperature of DroPE: one factor on all logits, by how far a window goes beyond training. Gelberg et al. 2025
// (arXiv:2512.12167). Dropping the positions themselves, which comes before, is a phase of training (train.phases).
//   τ = 1 + c·ln s
#include <cmath>
#include <optional>

#include "extend/extension.h"

namespace posenc {
namespace {

struct DropeParameters {
  std::optional<double> factor;
  double c = 0.412;
};

}  // namespace

template <>
const Schema<DropeParameters>& schema<DropeParameters>() {
  static const Schema<DropeParameters> table =
      Schema<DropeParameters>("DroPE temperature")
          .field("factor", &DropeParameters::factor, "s; null: window length / training length, at least 1")
          .at_least(1)
          .field("c", &DropeParameters::c, "the temperature is 1 + c*ln(s); the paper tunes it (0.412, 0.103)")
          .at_least(0);
  return table;
}

#ifndef POSENC_TENSORS

ExtensionInfo drope_info() {
  ExtensionInfo info;
  info.name = "drope";
  info.title = "DroPE temperature";
  info.paper = "Gelberg et al. 2025, arXiv:2512.12167";
  info.misfit = [](const SchemeInfo& scheme) { return needs_softmax("drope", scheme); };
  return extension_info<DropeParameters>(std::move(info));
}

#else

namespace {

class Drope : public Extension {
 public:
  explicit Drope(const DropeParameters& p) : parameters_(p) {}

  Tensor temperature(const Frame& frame, const Lengths& lengths) const override {
    const double scale = lengths.factor(parameters_.factor);
    return scale == 1 ? Tensor() : torch::full({frame.query_count()}, 1 + parameters_.c * std::log(scale), torch::kFloat64);
  }

 private:
  DropeParameters parameters_;
};

}  // namespace

std::unique_ptr<Extension> make_drope(const Json& parameters) {
  return std::make_unique<Drope>(from_json<DropeParameters>(parameters));
}

#endif

}  // namespace posenc
