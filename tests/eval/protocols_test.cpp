#include "eval/protocols.h"

#include <gmock/gmock.h>

#include <set>
#include <stdexcept>
#include <string>
#include <vector>

namespace posenc {

inline bool operator==(const EvalWindow& a, const EvalWindow& b) {
  return a.begin == b.begin && a.inputs == b.inputs && a.first_scored == b.first_scored;
}
inline void PrintTo(const EvalWindow& w, std::ostream* out) {
  *out << "{" << w.begin << ", " << w.inputs << ", " << w.first_scored << "}";
}

namespace {

using ::testing::ElementsAre;

/// How often each token is a scored target.
std::vector<int> times_scored(const std::vector<EvalWindow>& windows, std::int64_t tokens) {
  std::vector<int> times(static_cast<std::size_t>(tokens), 0);
  for (const EvalWindow& w : windows) {
    for (std::int64_t o = w.first_scored; o < w.inputs; ++o) ++times.at(static_cast<std::size_t>(w.begin + o + 1));
  }
  return times;
}

std::int64_t targets(const std::vector<EvalWindow>& windows) {
  std::int64_t sum = 0;
  for (const EvalWindow& w : windows) sum += w.targets();
  return sum;
}

TEST(Nonoverlapping, TheLastShortWindowCounts) {
  const auto windows = nonoverlapping_windows(1000, 128);
  EXPECT_EQ(windows.size(), 8u);
  EXPECT_EQ(targets(windows), 999);
  EXPECT_EQ(windows.back(), (EvalWindow{896, 103, 0}));
}

// Fault 40: a 256-token window scores 255 targets.
TEST(Nonoverlapping, OneWindowScoresAllButTheFirstToken) {
  EXPECT_THAT(nonoverlapping_windows(256, 256), ElementsAre(EvalWindow{0, 255, 0}));
  EXPECT_THAT(nonoverlapping_windows(256, 255), ElementsAre(EvalWindow{0, 255, 0}));
}

// Fault 43: the next window begins `stride` after the last, so that no target at a boundary is lost.
TEST(Sliding, TwentyTokensInWindowsOfTenByFiveScoreNineteen) {
  const auto windows = sliding_windows(20, 10, 5);
  EXPECT_THAT(windows, ElementsAre(EvalWindow{0, 10, 0}, EvalWindow{5, 10, 5}, EvalWindow{10, 9, 5}));
  EXPECT_EQ(targets(windows), 19);
}

// Fault 58.
TEST(Sliding, OneTokenHasNoTargetAndTwoHaveOne) {
  EXPECT_TRUE(sliding_windows(1, 10, 5).empty());
  EXPECT_TRUE(sliding_windows(0, 10, 5).empty());
  EXPECT_THAT(sliding_windows(2, 10, 5), ElementsAre(EvalWindow{0, 1, 0}));
}

TEST(Sliding, EveryTargetOnceWithAtLeastLengthMinusStrideOfContext) {
  for (std::int64_t tokens = 2; tokens <= 40; ++tokens) {
    for (std::int64_t length = 1; length <= 12; ++length) {
      for (std::int64_t stride = 1; stride <= length; ++stride) {
        SCOPED_TRACE(std::to_string(tokens) + " tokens, length " + std::to_string(length) + ", stride " + std::to_string(stride));
        const auto windows = sliding_windows(tokens, length, stride);
        const auto times = times_scored(windows, tokens);
        EXPECT_EQ(times[0], 0);
        for (std::size_t t = 1; t < times.size(); ++t) EXPECT_EQ(times[t], 1) << t;
        for (const EvalWindow& w : windows) {
          EXPECT_LE(w.inputs, length);
          EXPECT_GE(w.targets(), 1);
          if (w.begin > 0) EXPECT_EQ(w.first_scored, length - stride);
          else EXPECT_EQ(w.first_scored, 0);
        }
      }
    }
  }
}

TEST(Sliding, AStrideBeyondTheWindowIsOurBug) {
  EXPECT_THROW(sliding_windows(20, 10, 11), std::logic_error);
  EXPECT_THROW(sliding_windows(20, 10, 0), std::logic_error);
}

// 100 tokens, longest 40: last targets at 40 … 99, three of them evenly.
TEST(FixedTarget, WindowsAreSpreadOverTheText) {
  EXPECT_THAT(fixed_target_windows(100, 40, 40, 8, 3),
              ElementsAre(EvalWindow{0, 40, 32}, EvalWindow{29, 40, 32}, EvalWindow{59, 40, 32}));
  EXPECT_THAT(fixed_target_windows(100, 40, 10, 8, 3),
              ElementsAre(EvalWindow{30, 10, 2}, EvalWindow{59, 10, 2}, EvalWindow{89, 10, 2}));
  EXPECT_THAT(fixed_target_windows(100, 40, 40, 8, 1), ElementsAre(EvalWindow{59, 40, 32}));
  EXPECT_THAT(fixed_target_windows(41, 40, 40, 8, 5), ElementsAre(EvalWindow{0, 40, 32}));
}

TEST(FixedTarget, TheSameTargetsAtEveryLengthAndNoneTwice) {
  for (const std::int64_t tokens : {41, 64, 100, 257, 1000}) {
    for (const std::int64_t scored : {1, 3, 8}) {
      for (const std::int64_t count : {1, 2, 7, 500}) {
        SCOPED_TRACE(std::to_string(tokens) + " tokens, " + std::to_string(scored) + " targets, " + std::to_string(count) +
                     " windows");
        const auto expected = times_scored(fixed_target_windows(tokens, 40, 40, scored, count), tokens);
        EXPECT_EQ(std::set<int>(expected.begin(), expected.end()), (std::set<int>{0, 1}));
        for (const std::int64_t length : {8, 9, 16, 39}) {
          const auto windows = fixed_target_windows(tokens, 40, length, scored, count);
          EXPECT_EQ(times_scored(windows, tokens), expected) << length;
          for (const EvalWindow& w : windows) {
            EXPECT_EQ(w.inputs, length);
            EXPECT_EQ(w.targets(), scored);
            EXPECT_GE(w.begin, 0);
          }
        }
      }
    }
  }
}

TEST(FixedTarget, TextWithoutRoomIsOurBug) {
  EXPECT_THROW(fixed_target_windows(40, 40, 40, 8, 1), std::logic_error);
  EXPECT_THROW(fixed_target_windows(100, 40, 7, 8, 1), std::logic_error);
}

TEST(PositionBounds, SingleOffsetsUpToEightThenFourPerOctave) {
  EXPECT_THAT(position_bounds(1), ElementsAre(0, 1));
  EXPECT_THAT(position_bounds(6), ElementsAre(0, 1, 2, 3, 4, 5, 6));
  EXPECT_THAT(position_bounds(64), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64));
  EXPECT_THAT(position_bounds(19), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 19));
}

}  // namespace
}  // namespace posenc
