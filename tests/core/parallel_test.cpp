#include "core/parallel.h"

#include <gmock/gmock.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace posenc {
namespace {

TEST(Parallel, RunsEveryPieceOnce) {
  for (const int threads : {0, 1, 2, 7}) {
    for (const std::int64_t n : {0, 1, 5, 1000}) {
      std::vector<std::atomic<int>> runs(static_cast<std::size_t>(n));
      parallel_for(n, threads, [&](std::int64_t i) { ++runs.at(static_cast<std::size_t>(i)); });
      for (const auto& count : runs) EXPECT_EQ(count, 1);
    }
  }
}

TEST(Parallel, OneThreadIsTheCallersAndKeepsTheOrder) {
  const auto caller = std::this_thread::get_id();
  std::vector<std::int64_t> order;
  parallel_for(4, 1, [&](std::int64_t i) {
    EXPECT_EQ(std::this_thread::get_id(), caller);
    order.push_back(i);
  });
  EXPECT_THAT(order, testing::ElementsAre(0, 1, 2, 3));
}

// Two pieces that wait for each other end only when two threads run them.
TEST(Parallel, TwoThreadsRunAtTheSameTime) {
  std::mutex mutex;
  std::condition_variable changed;
  int arrived = 0;
  parallel_for(2, 2, [&](std::int64_t) {
    std::unique_lock lock(mutex);
    ++arrived;
    changed.notify_all();
    EXPECT_TRUE(changed.wait_for(lock, std::chrono::seconds(60), [&] { return arrived == 2; }));
  });
}

TEST(Parallel, NeverUsesMoreThreadsThanAskedFor) {
  std::mutex mutex;
  std::set<std::thread::id> ids;
  parallel_for(200, 3, [&](std::int64_t) {
    const std::lock_guard lock(mutex);
    ids.insert(std::this_thread::get_id());
  });
  EXPECT_LE(ids.size(), 3u);
}

// Pieces 10 and up fail; whatever the timing, the caller sees the first in order, and the rest is not started.
TEST(Parallel, RethrowsTheFirstFailureAndStops) {
  for (const int threads : {1, 2, 4}) {
    for (int round = 0; round < 20; ++round) {
      std::atomic<int> started = 0;
      const auto run = [&] {
        parallel_for(100'000, threads, [&](std::int64_t i) {
          ++started;
          if (i >= 10) throw std::runtime_error("piece " + std::to_string(i));
        });
      };
      EXPECT_THAT(run, testing::ThrowsMessage<std::runtime_error>("piece 10"));
      EXPECT_LE(started, 10 + threads);
    }
  }
}

TEST(Parallel, MayBeNested) {
  std::atomic<int> sum = 0;
  parallel_for(4, 2, [&](std::int64_t) { parallel_for(5, 2, [&](std::int64_t i) { sum += static_cast<int>(i); }); });
  EXPECT_EQ(sum, 40);
}

}  // namespace
}  // namespace posenc
