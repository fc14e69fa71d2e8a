// Dynamic NTK: NTK-aware scaling by the length at hand, and none within the training length. emozilla 2023.
//   B' = B·(a·l/L − (a−1))^(R/(R−2)) for a length l > L, a the factor
// Whether l is the window's length (one base for all its tokens) or the number of tokens so far (a base of its own for every
// query, as in decoding one by one) gives different perplexities; `mode` says which.
#include <optional>

#include "extend/extension.h"
#include "extend/rotary.h"

namespace posenc {
namespace {

struct DynamicNtkParameters {
  double factor = 1;
  std::string mode = "per_window";
};

}  // namespace

template <>
const Schema<DynamicNtkParameters>& schema<DynamicNtkParameters>() {
  static const Schema<DynamicNtkParameters> table =
      Schema<DynamicNtkParameters>("dynamic NTK scaling")
          .field("factor", &DynamicNtkParameters::factor, "a in a*length/training length - (a-1); 1: the plain ratio")
          .at_least(1)
          .field("mode", &DynamicNtkParameters::mode,
                 "length of the whole window for all its tokens, or for each token the number so far, as in decoding")
          .choices({"per_window", "per_step"});
  return table;
}

#ifndef POSENC_TENSORS

ExtensionInfo dynamic_ntk_info() {
  ExtensionInfo info;
  info.name = "dynamic_ntk";
  info.aliases = {"dynamic"};
  info.title = "dynamic NTK scaling";
  info.paper = "emozilla 2023";
  info.misfit = [](const SchemeInfo& scheme) { return needs_rotary("dynamic_ntk", scheme); };
  return extension_info<DynamicNtkParameters>(std::move(info));
}

#else

namespace {

class DynamicNtk : public Extension {
 public:
  explicit DynamicNtk(const DynamicNtkParameters& p) : parameters_(p) {}

  bool stepwise() const override { return parameters_.mode == "per_step"; }

  Frequencies frequencies(const Frequencies& trained, const Lengths& lengths) const override {
    if (lengths.window <= lengths.train) return trained;
    const double ratio = static_cast<double>(lengths.window) / static_cast<double>(lengths.train);
    const double scale = parameters_.factor * ratio - (parameters_.factor - 1);
    return {ntk_frequencies(trained, scale), trained.base, trained.magnitude};
  }

 private:
  DynamicNtkParameters parameters_;
};

}  // namespace

std::unique_ptr<Extension> make_dynamic_ntk(const Json& parameters) {
  return std::make_unique<DynamicNtk>(from_json<DynamicNtkParameters>(parameters));
}

#endif

}  // namespace posenc
