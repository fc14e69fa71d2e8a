#pragma once
// AdamW (Loshchilov, Hutter 2019, arXiv:1711.05101): the decay multiplies the parameter by 1 − lr·λ before the update and never
// enters the moments.

#include <torch/types.h>

#include <vector>

#include "train/config.h"

namespace posenc {

using torch::Tensor;

class AdamW {
 public:
  /// Keeps the parameters (shared storage). Which of them decay follows config.decay.
  AdamW(std::vector<Tensor> parameters, const TrainConfig& config);

  /// One update with gradients (same order and shapes as the parameters) times `grad_scale`.
  void step(const std::vector<Tensor>& grads, double lr, double grad_scale);

  /// First and second moments, in the order of the parameters, and the number of updates: what a checkpoint keeps.
  std::vector<Tensor>& first_moments() { return first_; }
  std::vector<Tensor>& second_moments() { return second_; }
  std::int64_t updates() const { return updates_; }
  void set_updates(std::int64_t updates) { updates_ = updates; }

 private:
  TrainConfig config_;
  std::vector<Tensor> parameters_, first_, second_;
  std::int64_t updates_ = 0;
};

/// √(Σ g²) over all gradients, summed in double in a fixed order.
double gradient_norm(const std::vector<Tensor>& grads);

}  // namespace posenc
