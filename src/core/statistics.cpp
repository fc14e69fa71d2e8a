#include "core/statistics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "core/error.h"
#include "core/rng.h"

namespace posenc {
namespace {

/// Mean and sample standard deviation (n − 1); at least two samples.
std::pair<double, double> mean_and_deviation(const std::vector<double>& samples) {
  const auto n = static_cast<double>(samples.size());
  double mean = 0;
  for (const double x : samples) mean += x / n;
  double squares = 0;
  for (const double x : samples) squares += (x - mean) * (x - mean);
  return {mean, std::sqrt(squares / (n - 1))};
}

/// P(|T| ≤ t) for Student's t with `df` degrees of freedom at θ = atan(t / √df): the finite series of
/// Abramowitz & Stegun 26.7.3 (odd df) and 26.7.4 (even df).
double central_probability(int df, double theta) {
  const double cosine = std::cos(theta);
  const bool odd = df % 2 == 1;
  double term = odd ? cosine : 1;
  double sum = df == 1 ? 0 : term;
  for (int power = odd ? 3 : 2; power <= df - 2; power += 2) {
    term *= cosine * cosine * (power - 1) / power;
    sum += term;
  }
  return odd ? 2 / std::numbers::pi * (theta + std::sin(theta) * sum) : std::sin(theta) * sum;
}

/// The t with P(|T| ≤ t) = confidence, by bisection over θ.
double t_quantile(int df, double confidence) {
  double low = 0, high = std::numbers::pi / 2;
  for (int step = 0; step < 60; ++step) {
    const double middle = (low + high) / 2;
    (central_probability(df, middle) < confidence ? low : high) = middle;
  }
  return std::sqrt(static_cast<double>(df)) * std::tan(low);
}

}  // namespace

double mean_nll(const std::vector<WindowLoss>& windows) {
  double nll = 0;
  std::int64_t targets = 0;
  for (const WindowLoss& window : windows) {
    nll += window.nll_sum;
    targets += window.targets;
  }
  return targets > 0 ? nll / static_cast<double>(targets) : std::numeric_limits<double>::quiet_NaN();
}

std::optional<double> bootstrap_stderr(const std::vector<WindowLoss>& windows, int draws, std::uint64_t seed) {
  POSENC_CHECK(draws >= 2, "a spread needs two draws");
  std::vector<WindowLoss> scored;  // windows without a target say nothing, and a draw of only those would have no mean
  for (const WindowLoss& window : windows) {
    if (window.targets > 0) scored.push_back(window);
  }
  if (scored.size() < 2) return std::nullopt;
  Rng rng(derive_seed(seed, "bootstrap"));
  std::vector<double> means;
  std::vector<WindowLoss> resample(scored.size());
  for (int draw = 0; draw < draws; ++draw) {
    for (WindowLoss& window : resample) window = scored[rng.below(scored.size())];
    means.push_back(mean_nll(resample));
  }
  const double deviation = mean_and_deviation(means).second;
  return std::isfinite(deviation) ? std::optional(deviation) : std::nullopt;
}

std::optional<double> perplexity(double nll) {
  const double value = std::exp(nll);
  return std::isfinite(nll) && std::isfinite(value) ? std::optional(value) : std::nullopt;
}

Interval wilson_interval(double share, std::int64_t n) {
  POSENC_CHECK(share >= 0 && share <= 1 && n >= 1, "a share of no trials");
  constexpr double kZ = 1.959963984540054;  // 97.5 % quantile of the normal distribution
  const auto trials = static_cast<double>(n);
  const double z2 = kZ * kZ / trials;
  const double centre = (share + z2 / 2) / (1 + z2);
  const double half = kZ / (1 + z2) * std::sqrt(share * (1 - share) / trials + z2 / (4 * trials));
  return {share == 0 ? 0 : centre - half, share == 1 ? 1 : centre + half};  // exactly, whatever was rounded
}

MeanInterval t_interval(const std::vector<double>& samples, double confidence) {
  POSENC_CHECK(confidence > 0 && confidence < 1, "confidence is a probability");
  const int n = static_cast<int>(samples.size());
  if (n == 0) return {std::numeric_limits<double>::quiet_NaN(), std::nullopt, 0};
  if (n == 1) return {samples[0], std::nullopt, 1};
  const auto [mean, deviation] = mean_and_deviation(samples);
  const double half_width = t_quantile(n - 1, confidence) * deviation / std::sqrt(n);
  return {mean, std::isfinite(half_width) ? std::optional(half_width) : std::nullopt, n};
}

}  // namespace posenc
