#pragma once
// What the extensions by windows have in common.

#include <algorithm>

#include "kernels/visibility.h"

namespace posenc {

/// What stays visible of `trained` within the last `window` keys, but for the first `keep_first`.
inline Visibility narrowed(Visibility trained, std::int64_t window, std::int64_t keep_first = 0) {
  trained.window = trained.window > 0 ? std::min(trained.window, window) : window;
  trained.keep_first = std::max(trained.keep_first, keep_first);
  return trained;
}

}  // namespace posenc
