// LM-Infinite: a query sees the last keys and the first ones (a Λ-shaped mask), and no distance is more than a limit. Han et al. 2023
// (arXiv:2308.16137). Their optional attention to some keys between is not built.
#include <optional>

#include "extend/extension.h"
#include "extend/rerope.h"
#include "extend/visible.h"

namespace posenc {
namespace {

struct LmInfiniteParameters {
  std::int64_t global = 10;
  std::optional<std::int64_t> local, limit;
};

}  // namespace

template <>
const Schema<LmInfiniteParameters>& schema<LmInfiniteParameters>() {
  static const Schema<LmInfiniteParameters> table =
      Schema<LmInfiniteParameters>("LM-Infinite")
          .field("global", &LmInfiniteParameters::global, "the first keys, which every query sees")
          .range(0, 1 << 24)
          .field("local", &LmInfiniteParameters::local, "the last keys, which a query sees; null: the training length")
          .range(1, 1 << 24)
          .field("limit", &LmInfiniteParameters::limit, "no distance is seen as more than this; null: local")
          .range(1, 1 << 24);
  return table;
}

#ifndef POSENC_TENSORS

ExtensionInfo lm_infinite_info() {
  ExtensionInfo info;
  info.name = "lm_infinite";
  info.title = "LM-Infinite: first and last keys, distances clipped";
  info.paper = "Han et al. 2023, arXiv:2308.16137";
  info.misfit = [](const SchemeInfo& scheme) {
    return scheme.traits.hooks.empty() ? "" : needs_distances("lm_infinite", scheme);
  };
  return extension_info<LmInfiniteParameters>(std::move(info));
}

#else

namespace {

class LmInfinite : public Extension {
 public:
  explicit LmInfinite(const LmInfiniteParameters& p) : parameters_(p) {}

  Visibility visible(const Visibility& trained, const Lengths& lengths) const override {
    const std::int64_t size = local(lengths);
    return lengths.window <= size ? trained : narrowed(trained, size, parameters_.global);
  }

  std::optional<FarPositions> far(const Frame& frame, const Lengths& lengths) const override {
    return clipped_distances(frame, static_cast<double>(parameters_.limit.value_or(local(lengths))));
  }

 private:
  std::int64_t local(const Lengths& lengths) const { return parameters_.local.value_or(lengths.train); }

  LmInfiniteParameters parameters_;
};

}  // namespace

std::unique_ptr<Extension> make_lm_infinite(const Json& parameters) {
  return std::make_unique<LmInfinite>(from_json<LmInfiniteParameters>(parameters));
}

#endif

}  // namespace posenc
