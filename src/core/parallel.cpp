#include "core/parallel.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace posenc {

void parallel_for(std::int64_t n, int threads, const std::function<void(std::int64_t)>& body) {
  if (threads <= 1 || n <= 1) {
    for (std::int64_t i = 0; i < n; ++i) body(i);
    return;
  }
  std::atomic<std::int64_t> next = 0;
  std::mutex mutex;
  std::exception_ptr error;
  std::int64_t error_piece = n;
  const auto work = [&] {
    for (std::int64_t i = next++; i < n; i = next++) {
      try {
        body(i);
      } catch (...) {
        next = n;
        // Pieces before a failed one were handed out, so the lowest failing one always runs: the same error on any
        // number of threads.
        const std::lock_guard lock(mutex);
        if (i < error_piece) error = std::current_exception(), error_piece = i;
      }
    }
  };
  {
    std::vector<std::jthread> workers;
    const std::int64_t others = std::min<std::int64_t>(threads, n) - 1;
    workers.reserve(static_cast<std::size_t>(others));
    try {
      for (std::int64_t worker = 0; worker < others; ++worker) workers.emplace_back(work);
    } catch (const std::system_error&) {
      // No more threads to be had (ulimit -u, a full cgroup): those that started, and this one, do all the pieces.
    }
    work();
  }
  if (error) std::rethrow_exception(error);
}

}  // namespace posenc
