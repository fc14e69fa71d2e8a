// Log-n scaling of a model trained without it: q grows with the number of keys, so that attention stays as sharp. Su 2021
// (kexue.fm/archives/8823); Chiang, Cholak 2022 (arXiv:2202.12172).
//   τ_i = max(1, ln n_i / ln L), n_i the keys that query i sees
#include "extend/log_n.h"

#include <algorithm>
#include <cmath>

#include "extend/extension.h"

namespace posenc {

#ifndef POSENC_TENSORS

ExtensionInfo log_n_info() {
  ExtensionInfo info;
  info.name = "log_n";
  info.title = "log-n scaling of the logits";
  info.paper = "Chiang, Cholak 2022, arXiv:2202.12172";
  info.misfit = [](const SchemeInfo& scheme) { return needs_softmax("log_n", scheme); };
  return extension_info<NoParameters>(std::move(info));
}

#else

Tensor log_n_temperature(const Frame& frame, std::int64_t train_length) {
  const double log_train = std::log(static_cast<double>(std::max<std::int64_t>(train_length, 2)));
  return (frame.seen_counts().log() / log_train).clamp_min(1);
}

namespace {

class LogN : public Extension {
 public:
  Tensor temperature(const Frame& frame, const Lengths& lengths) const override {
    return lengths.window <= lengths.train ? Tensor() : log_n_temperature(frame, lengths.train);
  }
};

}  // namespace

std::unique_ptr<Extension> make_log_n(const Json&) { return std::make_unique<LogN>(); }

#endif

}  // namespace posenc
