#pragma once
// The frequencies of rotary position embeddings, for the scheme, its relatives, its extensions and tests.

#include <cstdint>
#include <string>
#include <vector>

namespace posenc {

/// θ_k = base^(−2k/R), k = 0 … ⌈R/2⌉−1, each by a direct power (Su et al. 2021, eq. 15). p-RoPE keeps the `proportional` share
/// of them, the first ⌊proportional·R/2⌋, and sets the others to 0.
std::vector<double> rope_inv_freq(std::int64_t rotary_width, double base, double proportional = 1);

/// Why a scheme cannot turn `width` dims of a head in pairs, or "".
std::string rotary_width_problem(const std::string& scheme, std::int64_t head_dim, std::int64_t width);

}  // namespace posenc
