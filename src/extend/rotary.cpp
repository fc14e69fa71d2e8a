#include "extend/rotary.h"

#ifdef POSENC_TENSORS

#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/error.h"

namespace posenc {
namespace {

Tensor pair_indices(const Frequencies& trained) { return torch::arange(trained.inv_freq.size(0), torch::kFloat64); }

double width(const Frequencies& trained) { return 2.0 * static_cast<double>(trained.inv_freq.size(0)); }

/// The index (of a pair, fractional) whose pair turns `rotations` times within L.
double pair_of_rotations(const Frequencies& trained, double rotations, std::int64_t train_length) {
  return width(trained) * std::log(static_cast<double>(train_length) / (rotations * 2 * std::numbers::pi)) /
         (2 * std::log(trained.base));
}

}  // namespace

Tensor ntk_frequencies(const Frequencies& trained, double scale) {
  if (trained.inv_freq.size(0) < 2) throw ConfigError("an NTK-aware base needs two rotary pairs or more; this scheme turns one");
  return trained.inv_freq * torch::pow(scale, pair_indices(trained) * (-2 / (width(trained) - 2)));
}

Tensor ramp_by_index(const Frequencies& trained, double fast, double slow, std::int64_t train_length, bool whole) {
  double low = pair_of_rotations(trained, fast, train_length), high = pair_of_rotations(trained, slow, train_length);
  if (whole) low = std::floor(low), high = std::ceil(high);
  low = std::max(low, 0.0);
  high = std::min(high, width(trained) - 1);  // R − 1 pairs, not R/2 − 1, in YaRN's code and all that follow it
  if (low == high) high += 0.001;
  return 1 - ((pair_indices(trained) - low) / (high - low)).clamp(0, 1);
}

Tensor ramp_by_rotations(const Frequencies& trained, double fast, double slow, std::int64_t train_length) {
  const Tensor rotations = trained.inv_freq * (static_cast<double>(train_length) / (2 * std::numbers::pi));
  return ((rotations - slow) / (fast - slow)).clamp(0, 1);
}

Tensor partly_divided(const Tensor& inv_freq, double scale, const Tensor& keep) {
  return (1 - keep) * inv_freq / scale + keep * inv_freq;
}

}  // namespace posenc

#endif
