#pragma once
// Independent pieces of fixed size on worker threads; nothing depends on how many there are.

#include <cstdint>
#include <functional>

namespace posenc {

/// Runs body(i) for every i in [0, n) on up to `threads` threads (the calling thread when one is enough). Pieces are handed out
/// in order; the first exception stops the handing out and is rethrown here.
void parallel_for(std::int64_t n, int threads, const std::function<void(std::int64_t)>& body);

}  // namespace posenc
