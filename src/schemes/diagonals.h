#pragma once
// What depends on the distance alone has one value per diagonal of [Q, K] where positions are evenly spaced: Q + K − 1 numbers
// stand for all pairs.

#include "schemes/scheme.h"

namespace posenc {

/// i − j of every diagonal, by index, the largest first: [Q + K − 1] float64, negative for later keys.
inline Tensor diagonal_steps(const Frame& frame) {
  const std::int64_t farthest = frame.first_query + frame.query_count() - 1;
  return torch::arange(farthest, farthest - frame.query_count() - frame.key_count() + 1, -1, torch::kFloat64);
}

/// Values of the diagonals [H, Q + K − 1], in that order, for every pair: [H, Q, K], a view but for the flip.
inline Tensor from_diagonals(const Tensor& values, const Frame& frame) {
  return values.unfold(1, frame.key_count(), 1).flip(1);  // window r is query Q − 1 − r
}

}  // namespace posenc
