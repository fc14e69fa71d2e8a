#pragma once
// The decay times of the Forgetting Transformer's fixed gates, for the scheme and its tests.

#include <cstdint>
#include <vector>

namespace posenc {

/// Steps over which each head forgets a factor e, log-spaced from time_min to time_max (Lin et al. 2025, "decay time"); one head
/// takes time_min.
std::vector<double> fox_decay_times(std::int64_t heads, double time_min, double time_max);

}  // namespace posenc
