#pragma once
// Distances that stop growing, for ReRoPE and LM-Infinite.

#ifdef POSENC_TENSORS

#include <optional>

#include "schemes/scheme.h"

namespace posenc {

/// Keys at `limit` or further are seen at `limit`; none when no key of the frame is.
std::optional<FarPositions> clipped_distances(const Frame& frame, double limit);

}  // namespace posenc

#endif
