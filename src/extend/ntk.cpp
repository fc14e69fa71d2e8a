// NTK-aware scaling: the base of the wavelengths grows so that the lowest frequency is divided by the factor and the highest is
// kept. bloc97 2023. The frequencies between end up beyond the trained range before the factor is used up, so a factor of 1.5 to
// 2 times the wanted one reaches further.
#include <optional>

#include "extend/extension.h"
#include "extend/rotary.h"

namespace posenc {
namespace {

struct NtkParameters {
  std::optional<double> factor;
};

}  // namespace

template <>
const Schema<NtkParameters>& schema<NtkParameters>() {
  static const Schema<NtkParameters> table =
      Schema<NtkParameters>("NTK-aware scaling")
          .field(
              "factor", &NtkParameters::factor,
              "the base is multiplied by factor^(R/(R-2)), R the rotary width; null: window length / training length, at least 1")
          .at_least(1);
  return table;
}

#ifndef POSENC_TENSORS

ExtensionInfo ntk_info() {
  ExtensionInfo info;
  info.name = "ntk";
  info.aliases = {"ntk_aware"};
  info.title = "NTK-aware scaling";
  info.paper = "bloc97 2023";
  info.misfit = [](const SchemeInfo& scheme) { return needs_rotary("ntk", scheme); };
  return extension_info<NtkParameters>(std::move(info));
}

#else

namespace {

class Ntk : public Extension {
 public:
  explicit Ntk(const NtkParameters& p) : parameters_(p) {}

  Frequencies frequencies(const Frequencies& trained, const Lengths& lengths) const override {
    const double scale = lengths.factor(parameters_.factor);
    return scale == 1 ? trained : Frequencies{ntk_frequencies(trained, scale), trained.base, trained.magnitude};
  }

 private:
  NtkParameters parameters_;
};

}  // namespace

std::unique_ptr<Extension> make_ntk(const Json& parameters) {
  return std::make_unique<Ntk>(from_json<NtkParameters>(parameters));
}

#endif

}  // namespace posenc
