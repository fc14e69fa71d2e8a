#pragma once
// The buckets of T5's relative bias, for the scheme and its tests.

#include <cstdint>

namespace posenc {

/// Bucket of `relative` = key position − query position. Raffel et al. 2020 (arXiv:1910.10683), mesh_tensorflow's
/// _relative_position_bucket: the first half of the buckets one distance each, the rest spaced by the logarithm up to
/// max_distance, everything beyond in the last. Causal: future keys share bucket 0. Bidirectional: half of the buckets for each
/// side. A distance exactly on a boundary belongs to the upper bucket.
std::int64_t t5_bucket(std::int64_t relative, std::int64_t buckets, std::int64_t max_distance, bool bidirectional);

}  // namespace posenc
