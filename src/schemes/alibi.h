#pragma once
// The slopes of ALiBi, for the scheme, its tests and `posenc inspect`.

#include <cstdint>
#include <vector>

namespace posenc {

/// Slopes in head order (Press et al. 2022, the authors' get_slopes; `bias_max` 8 is theirs, others as in MPT).
/// `geometric`: 2^(−bias_max·h/H) for any H, as MLX does.
std::vector<double> alibi_slopes(std::int64_t heads, double bias_max = 8, bool geometric = false);

}  // namespace posenc
