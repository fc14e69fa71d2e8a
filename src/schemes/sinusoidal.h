#pragma once
// The frequencies of sinusoidal position embeddings, for the scheme and its tests.

#include <cstdint>
#include <vector>

namespace posenc {

/// Angular frequencies of the ⌈d/2⌉ sines. "paper": base^(−2k/d) (Vaswani et al. 2017). "tensor2tensor": base^(−k/(d/2−1)), so
/// that the last wavelength is exactly 2π·base (tensor2tensor, fairseq); needs an even d ≥ 4.
std::vector<double> sinusoidal_frequencies(std::int64_t d_model, double base, bool tensor2tensor);

}  // namespace posenc
