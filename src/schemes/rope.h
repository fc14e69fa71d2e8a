#pragma once
// The frequencies of rotary position embeddings, for the scheme, its extensions and tests.

#include <cstdint>
#include <vector>

namespace posenc {

/// θ_k = base^(−2k/R), k = 0 … ⌈R/2⌉−1, each by a direct power (Su et al. 2021, eq. 15).
std::vector<double> rope_inv_freq(std::int64_t rotary_width, double base);

}  // namespace posenc
