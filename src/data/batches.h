#pragma once
// Which windows of a token stream make a training step. Nothing is stored between steps: resuming at step s means asking for
// step s.

#include <cstdint>
#include <vector>

namespace posenc {

/// Start positions of the sequences of training step `step` (0, 1, …): a pure function of its arguments. A window reads `length`
/// inputs and the next token, so N tokens have N − length possible starts. Each comes once per epoch, in an order of its own for
/// each epoch; a step may reach into the next epoch. Needs tokens > length (require_window).
std::vector<std::int64_t> batch_starts(std::uint64_t seed, std::int64_t step, std::int64_t sequences, std::int64_t tokens,
                                       std::int64_t length);

}  // namespace posenc
