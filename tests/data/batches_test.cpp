#include "data/batches.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <set>
#include <vector>

namespace posenc {
namespace {

using ::testing::ElementsAre;
using ::testing::UnorderedElementsAre;
using Starts = std::vector<std::int64_t>;

/// The starts of steps [first, last), one sequence after the other.
Starts steps(std::uint64_t seed, std::int64_t first, std::int64_t last, std::int64_t sequences, std::int64_t tokens,
             std::int64_t length) {
  Starts all;
  for (std::int64_t step = first; step < last; ++step) {
    const Starts starts = batch_starts(seed, step, sequences, tokens, length);
    all.insert(all.end(), starts.begin(), starts.end());
  }
  return all;
}

// Fault 76: 8 tokens at length 4 have the starts 0 … 3, since start 3 reads tokens 3 … 6 and targets token 7.
TEST(Batches, EightTokensAtLengthFourHaveFourStarts) {
  EXPECT_THAT(batch_starts(1, 0, 4, 8, 4), UnorderedElementsAre(0, 1, 2, 3));
}

// Fault 76.
TEST(Batches, FiveTokensAtLengthFourHaveOneStart) { EXPECT_THAT(batch_starts(1, 7, 3, 5, 4), ElementsAre(0, 0, 0)); }

// Fault 97.
TEST(Batches, EachEpochIsCompleteAndInItsOwnOrder) {
  const Starts first = steps(1, 0, 5, 2, 14, 4);  // 10 windows in 5 steps of 2
  const Starts second = steps(1, 5, 10, 2, 14, 4);
  EXPECT_THAT(first, UnorderedElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9));
  EXPECT_THAT(second, UnorderedElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9));
  EXPECT_NE(first, second);
}

TEST(Batches, AStepMayReachIntoTheNextEpoch) {
  const Starts starts = batch_starts(3, 0, 25, 14, 4);  // 10 windows: two epochs and a half
  EXPECT_EQ(std::set<std::int64_t>(starts.begin(), starts.begin() + 10).size(), 10u);
  EXPECT_EQ(std::set<std::int64_t>(starts.begin() + 10, starts.begin() + 20).size(), 10u);
  EXPECT_EQ(std::set<std::int64_t>(starts.begin() + 20, starts.end()).size(), 5u);
}

// Fault 95: what a step reads does not depend on the steps before it, and a resumed run does not begin anew.
TEST(Batches, AResumedRunReadsWhatTheWholeRunReads) {
  const Starts resumed = steps(1, 50, 100, 4, 1010, 10);
  const Starts whole = steps(1, 0, 100, 4, 1010, 10);  // 400 of 1000 windows
  EXPECT_EQ(Starts(whole.begin() + 200, whole.end()), resumed);
  EXPECT_EQ(std::set<std::int64_t>(whole.begin(), whole.end()).size(), 400u);
}

// Fault 73: all 64 bits of the seed count.
TEST(Batches, SeedsThatAgreeInTheirLow32BitsDiffer) {
  EXPECT_NE(batch_starts(1, 0, 32, 10000, 100), batch_starts(4294967297, 0, 32, 10000, 100));
}

TEST(Batches, TheOrderDoesNotDependOnTheSequencesPerStep) {
  EXPECT_EQ(steps(9, 0, 3, 8, 1000, 64), steps(9, 0, 12, 2, 1000, 64));
}

// Shuffled, not a walk along the text: of 1000 neighbours in a random order of 100,000 about 0.02 are expected to be adjacent.
TEST(Batches, NeighboursInAStepAreNotNeighboursInTheText) {
  const Starts starts = batch_starts(1, 0, 1000, 100100, 100);
  int adjacent = 0;
  for (std::size_t i = 1; i < starts.size(); ++i) adjacent += std::abs(starts[i] - starts[i - 1]) == 1;
  EXPECT_LE(adjacent, 2);
}

}  // namespace
}  // namespace posenc
