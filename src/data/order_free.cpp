#include "data/order_free.h"

#include <cmath>

namespace posenc {
namespace {

std::vector<double> frequencies(const Split& train, std::int64_t vocab) {
  std::vector<double> f(static_cast<std::size_t>(vocab), 1.0);
  for (const std::int32_t token : train.tokens) ++f[static_cast<std::size_t>(token)];
  const double total = static_cast<double>(train.tokens.size()) + static_cast<double>(vocab);
  for (double& x : f) x /= total;
  return f;
}

double mixture_loss(const std::vector<std::int32_t>& tokens, const std::vector<double>& f, std::int64_t length, double lambda) {
  std::vector<std::int64_t> counts(f.size());
  const auto n = static_cast<std::size_t>(length);
  double sum = 0;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const auto v = static_cast<std::size_t>(tokens[i]);
    if (i >= n) {
      sum -= std::log(lambda * static_cast<double>(counts[v]) / static_cast<double>(length) + (1 - lambda) * f[v]);
      --counts[static_cast<std::size_t>(tokens[i - n])];
    }
    ++counts[v];
  }
  return sum / static_cast<double>(tokens.size() - n);
}

}  // namespace

OrderFreeLoss order_free_loss(const Dataset& dataset, const std::string& split, std::int64_t length) {
  require_window(dataset.valid, length);
  require_window(dataset.split(split), length);
  const std::vector<double> f = frequencies(dataset.train, dataset.tokenizer->vocab_size());
  constexpr int kShares = 20;
  double best = mixture_loss(dataset.valid.tokens, f, length, 0);
  OrderFreeLoss loss;
  for (int i = 1; i < kShares; ++i) {
    const double share = static_cast<double>(i) / kShares, of_share = mixture_loss(dataset.valid.tokens, f, length, share);
    if (of_share < best) best = of_share, loss.mixture = share;
  }
  loss.unigram = mixture_loss(dataset.split(split).tokens, f, length, 0);
  loss.bag_of_context = mixture_loss(dataset.split(split).tokens, f, length, loss.mixture);
  return loss;
}

}  // namespace posenc
