#include "eval/protocols.h"

#include <algorithm>

#include "core/error.h"

namespace posenc {

std::vector<EvalWindow> nonoverlapping_windows(std::int64_t tokens, std::int64_t length) {
  return sliding_windows(tokens, length, length);
}

std::vector<EvalWindow> sliding_windows(std::int64_t tokens, std::int64_t length, std::int64_t stride) {
  POSENC_CHECK(length >= 1 && stride >= 1 && stride <= length, "a stride lies between 1 and the window length");
  std::vector<EvalWindow> windows;
  std::int64_t scored = 0;  // targets 1 … scored are done
  for (std::int64_t begin = 0; scored < tokens - 1; begin += stride) {
    const std::int64_t inputs = std::min(length, tokens - 1 - begin);
    windows.push_back({begin, inputs, scored - begin});
    scored = begin + inputs;
  }
  return windows;
}

std::vector<EvalWindow> fixed_target_windows(std::int64_t tokens, std::int64_t longest, std::int64_t length, std::int64_t targets,
                                             std::int64_t count) {
  POSENC_CHECK(tokens > longest && longest >= length && length >= targets && targets >= 1 && count >= 1, "no window fits");
  const std::int64_t room = tokens - 1 - longest;  // last targets lie in [longest, tokens − 1]
  count = std::min(count, room / targets + 1);
  std::vector<EvalWindow> windows;
  for (std::int64_t m = 0; m < count; ++m) {
    const std::int64_t last_target = longest + (count == 1 ? room : m * room / (count - 1));
    windows.push_back({last_target - length, length, length - targets});
  }
  return windows;
}

std::vector<std::int64_t> position_bounds(std::int64_t length) {
  std::vector<std::int64_t> bounds;
  for (std::int64_t step = 1, at = 0; at < length; at += step) {
    bounds.push_back(at);
    if (at >= 8 * step) step *= 2;
  }
  bounds.push_back(length);
  return bounds;
}

}  // namespace posenc
