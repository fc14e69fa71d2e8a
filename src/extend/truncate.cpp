// Truncation: a model is shown the last tokens of a window and nothing before. The honest baseline of every method beyond the
// training length. A window is cut, from its end, into pieces that do not see each other, so that its last targets see `size`
// tokens or fewer and earlier ones are scored as well.
#include <optional>

#include "extend/extension.h"

namespace posenc {
namespace {

struct TruncateParameters {
  std::optional<std::int64_t> size;
};

}  // namespace

template <>
const Schema<TruncateParameters>& schema<TruncateParameters>() {
  static const Schema<TruncateParameters> table =
      Schema<TruncateParameters>("truncation")
          .field("size", &TruncateParameters::size, "tokens of a piece; null: the training length")
          .range(1, 1 << 24);
  return table;
}

#ifndef POSENC_TENSORS

ExtensionInfo truncate_info() {
  ExtensionInfo info;
  info.name = "truncate";
  info.aliases = {"last"};
  info.title = "truncation to the last tokens";
  info.paper = "the control of Press et al. 2022, arXiv:2108.12409";
  info.misfit = [](const SchemeInfo&) { return ""; };
  return extension_info<TruncateParameters>(std::move(info));
}

#else

namespace {

class Truncate : public Extension {
 public:
  explicit Truncate(const TruncateParameters& p) : parameters_(p) {}
  std::int64_t piece(const Lengths& lengths) const override { return parameters_.size.value_or(lengths.train); }

 private:
  TruncateParameters parameters_;
};

}  // namespace

std::unique_ptr<Extension> make_truncate(const Json& parameters) {
  return std::make_unique<Truncate>(from_json<TruncateParameters>(parameters));
}

#endif

}  // namespace posenc
