#include "eval/sampling.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/error.h"

namespace posenc {

std::int32_t sample_token(const std::vector<float>& logits, const Sampling& sampling, Rng& rng) {
  if (std::any_of(logits.begin(), logits.end(), [](float l) { return std::isnan(l); }))
    throw DataError("the model's logits are not numbers; has it diverged?");
  const auto likeliest = std::max_element(logits.begin(), logits.end());
  if (sampling.temperature == 0) return static_cast<std::int32_t>(likeliest - logits.begin());

  std::vector<std::int32_t> order(logits.size());  // likeliest first
  std::iota(order.begin(), order.end(), 0);
  const auto logit = [&](std::int32_t token) { return static_cast<double>(logits[static_cast<std::size_t>(token)]); };
  std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) { return logit(a) > logit(b); });
  if (sampling.top_k > 0 && sampling.top_k < static_cast<std::int64_t>(order.size()))
    order.resize(static_cast<std::size_t>(sampling.top_k));

  std::vector<double> upto;  // running sums of unnormalised probabilities
  double sum = 0;
  for (const std::int32_t token : order) upto.push_back(sum += std::exp((logit(token) - *likeliest) / sampling.temperature));
  const auto last = std::lower_bound(upto.begin(), upto.end(), sampling.top_p * sum);
  const double kept = last == upto.end() ? sum : *last;
  const auto drawn = std::upper_bound(upto.begin(), upto.end() - 1, rng.uniform() * kept);
  return order[static_cast<std::size_t>(drawn - upto.begin())];
}

}  // namespace posenc
