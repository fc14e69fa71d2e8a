#pragma once
// The statistics behind every number shown with an error: token-weighted means, the block bootstrap over windows, and t intervals
// over seeds.

#include <cstdint>
#include <optional>
#include <vector>

namespace posenc {

/// Summed loss of one window (block) and how many targets it scored.
struct WindowLoss {
  double nll_sum = 0;
  std::int64_t targets = 0;
};

/// Σ nll / Σ targets, in nats per target: never a mean of means. NaN when there is no target.
double mean_nll(const std::vector<WindowLoss>& windows);

/// Standard error of mean_nll by resampling whole windows with replacement (`draws` times, fixed seed). 0 windows or 1 → nullopt.
std::optional<double> bootstrap_stderr(const std::vector<WindowLoss>& windows, int draws = 1000, std::uint64_t seed = 1);

/// exp(nll), or nullopt when it overflows a double or nll is not finite.
std::optional<double> perplexity(double nll);

struct Interval {
  double low = 0, high = 0;
};

/// 95 % score interval of a share observed over n ≥ 1 independent trials (Wilson 1927).
Interval wilson_interval(double share, std::int64_t n);

/// Mean and the half width of its two-sided Student t interval (`confidence` e.g. 0.95) over independent samples (seeds).
struct MeanInterval {
  double mean = 0;
  std::optional<double> half_width;  ///< nullopt for fewer than two samples
  int n = 0;
};
MeanInterval t_interval(const std::vector<double>& samples, double confidence = 0.95);

}  // namespace posenc
