#include "data/batches.h"

#include <optional>

#include "core/error.h"
#include "core/rng.h"

namespace posenc {

std::vector<std::int64_t> batch_starts(std::uint64_t seed, std::int64_t step, std::int64_t sequences, std::int64_t tokens,
                                       std::int64_t length) {
  POSENC_CHECK(step >= 0 && sequences >= 0 && length >= 1 && tokens > length, "no window to draw from");
  const auto windows = static_cast<std::uint64_t>(tokens - length);
  const std::uint64_t first = static_cast<std::uint64_t>(step) * static_cast<std::uint64_t>(sequences);
  std::vector<std::int64_t> starts;
  std::optional<Permutation> order;
  for (std::uint64_t n = first; n < first + static_cast<std::uint64_t>(sequences); ++n) {
    if (!order || n % windows == 0) order.emplace(windows, derive_seed(seed, "batches", n / windows));
    starts.push_back(static_cast<std::int64_t>((*order)(n % windows)));
  }
  return starts;
}

}  // namespace posenc
