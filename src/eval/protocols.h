#pragma once
// Which targets are scored, and in which context: the arithmetic behind every perplexity, apart from any model. A window feeds
// `inputs` consecutive tokens from `begin`; offset o predicts token begin + o + 1; offsets from `first_scored` on are scored. See
// contract.md §5.

#include <cstdint>
#include <string>
#include <vector>

namespace posenc {

struct EvalWindow {
  std::int64_t begin = 0, inputs = 0, first_scored = 0;
  std::int64_t targets() const { return inputs - first_scored; }
};

/// Consecutive windows of `length` inputs; each of the N − 1 targets once, the last short window included.
std::vector<EvalWindow> nonoverlapping_windows(std::int64_t tokens, std::int64_t length);

/// Windows `stride` apart; each of the N − 1 targets once, after the first window with at least length − stride tokens of
/// context. 1 ≤ stride ≤ length.
std::vector<EvalWindow> sliding_windows(std::int64_t tokens, std::int64_t length, std::int64_t stride);

/// The same `targets` last targets of up to `count` evenly spaced windows of `longest` inputs, fed the `length` inputs that end
/// there. Fewer windows when their targets would overlap. Needs tokens > longest ≥ length ≥ targets.
std::vector<EvalWindow> fixed_target_windows(std::int64_t tokens, std::int64_t longest, std::int64_t length, std::int64_t targets,
                                             std::int64_t count);

/// Bounds of the by-position buckets of [0, length): single offsets up to 8, then four per octave (…, 128, 160, 192, 224, 256,
/// …).
std::vector<std::int64_t> position_bounds(std::int64_t length);

}  // namespace posenc
