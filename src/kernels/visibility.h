#pragma once
// Which keys a query may see, by index: causality, window, chunk and the first keys that stay visible.

#include <algorithm>
#include <cstdint>

namespace posenc {

/// Which of the keys before it a query may see, by index.
struct Visibility {
  std::int64_t window = 0;      ///< the last `window` keys, its own included; 0: all
  std::int64_t chunk = 0;       ///< only keys of its own run of `chunk`; 0: all
  std::int64_t keep_first = 0;  ///< these first keys stay visible beyond window and chunk
  bool operator==(const Visibility&) const = default;

  /// The first key of the run that ends with the query itself, for the query at index `i` among the keys. Keys it sees:
  /// [first(i), i] and those below keep_first that are not later than i. Never falls from one query to the next.
  std::int64_t first(std::int64_t i) const {
    std::int64_t from = 0;
    if (window > 0) from = std::max(from, i - window + 1);
    if (chunk > 0) from = std::max(from, i / chunk * chunk);
    return from;
  }
};

}  // namespace posenc
