#pragma once
// What can be predicted without knowing any order: the floor that a model must pass to show that it uses positions. No torch.

#include <cstdint>

#include "data/dataset.h"

namespace posenc {

struct OrderFreeLoss {
  double unigram = 0;         ///< nats per token, frequencies of the training split alone
  double bag_of_context = 0;  ///< the same mixed with the counts among the last `length` tokens
  double mixture = 0;         ///< share of the context in the mixture, the best on the validation split
};

/// Losses on `split` (every token with `length` tokens before it): p(v) = λ·count(v)/length + (1 − λ)·f(v), f the training
/// frequencies with one added to every count.
OrderFreeLoss order_free_loss(const Dataset& dataset, const std::string& split, std::int64_t length);

}  // namespace posenc
