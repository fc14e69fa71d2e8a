// Sliding-window attention at inference: every query sees the last keys only. A control: what a method beyond the training length
// has to beat, together with truncate. Through the layers, context beyond the window still gets in.
#include <optional>

#include "extend/extension.h"
#include "extend/visible.h"

namespace posenc {
namespace {

struct WindowParameters {
  std::optional<std::int64_t> size;
};

}  // namespace

template <>
const Schema<WindowParameters>& schema<WindowParameters>() {
  static const Schema<WindowParameters> table =
      Schema<WindowParameters>("sliding window")
          .field("size", &WindowParameters::size, "keys a query sees, its own included; null: the training length")
          .range(1, 1 << 24);
  return table;
}

#ifndef POSENC_TENSORS

ExtensionInfo window_info() {
  ExtensionInfo info;
  info.name = "window";
  info.aliases = {"swa"};
  info.title = "sliding-window attention";
  info.paper = "Beltagy et al. 2020, arXiv:2004.05150";
  info.misfit = [](const SchemeInfo&) { return ""; };
  return extension_info<WindowParameters>(std::move(info));
}

#else

namespace {

class Window : public Extension {
 public:
  explicit Window(const WindowParameters& p) : parameters_(p) {}

  Visibility visible(const Visibility& trained, const Lengths& lengths) const override {
    const std::int64_t size = parameters_.size.value_or(lengths.train);
    return lengths.window <= size ? trained : narrowed(trained, size);
  }

 private:
  WindowParameters parameters_;
};

}  // namespace

std::unique_ptr<Extension> make_window(const Json& parameters) {
  return std::make_unique<Window>(from_json<WindowParameters>(parameters));
}

#endif

}  // namespace posenc
