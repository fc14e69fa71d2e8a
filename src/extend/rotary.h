#pragma once
// What the extensions of rotary frequencies have in common. θ_k, k = 0 … R/2 − 1, are the trained frequencies of a rotary width of
// R dims, highest first; s the factor of extension; L the training length.

#ifdef POSENC_TENSORS

#include "schemes/scheme.h"

namespace posenc {

/// θ_k·scale^(−2k/(R−2)): those of the base times scale^(R/(R−2)), so that the lowest is divided by scale and the highest kept
/// (NTK-aware, bloc97 2023). Refuses a single pair, for which the exponent is not defined.
Tensor ntk_frequencies(const Frequencies& trained, double scale);

/// A fall from 1 at the pair that turns `fast` times within L and before to 0 at the one that turns `slow` times and beyond, linear
/// in the index: [R/2]. With `whole` the ends are rounded outwards to whole pairs, as YaRN's code does.
Tensor ramp_by_index(const Frequencies& trained, double fast, double slow, std::int64_t train_length, bool whole);

/// The same, linear in the rotations of a pair within L, as in YaRN's paper (eq. 12): [R/2].
Tensor ramp_by_rotations(const Frequencies& trained, double fast, double slow, std::int64_t train_length);

/// (1−keep)·θ/s + keep·θ
Tensor partly_divided(const Tensor& inv_freq, double scale, const Tensor& keep);

}  // namespace posenc

#endif
