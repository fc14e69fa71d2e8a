#pragma once
// Text about nothing, to hide something in: sentences of common words, without digits.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/rng.h"

namespace posenc {

/// The characters of filler.
inline constexpr const char* kFillerAlphabet = "abcdefghijklmnopqrstuvwxyz .";

/// `size` characters of sentences, each with a blank after it; the last one is cut off.
std::string draw_filler(std::int64_t size, Rng& rng);

/// Filler with texts in it, `size` characters in all: each at its place in [0, 1], of the filler before it. Texts at the same
/// place stand in the order given.
std::string hide_in_filler(const std::vector<std::pair<double, std::string>>& texts, std::int64_t size, Rng& rng);

}  // namespace posenc
