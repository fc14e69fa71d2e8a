#include "train/optimizer.h"

#include <cmath>
#include <numeric>

namespace posenc {
namespace {

/// The constants of one update.
struct Update {
  double lr, decay, beta1, beta2, eps, correction1, correction2, grad_scale;
};

template <class T>
void update(T* __restrict p, T* __restrict m, T* __restrict v, const T* __restrict g, std::int64_t n, const Update& u) {
  const T keep = static_cast<T>(1 - u.lr * u.decay), scale = static_cast<T>(u.grad_scale), eps = static_cast<T>(u.eps);
  const T b1 = static_cast<T>(u.beta1), b2 = static_cast<T>(u.beta2), c1 = static_cast<T>(1 - u.beta1),
          c2 = static_cast<T>(1 - u.beta2);
  const T rate = static_cast<T>(u.lr / u.correction1), root = static_cast<T>(1 / std::sqrt(u.correction2));
  for (std::int64_t i = 0; i < n; ++i) {
    const T grad = g[i] * scale;
    m[i] = b1 * m[i] + c1 * grad;
    v[i] = b2 * v[i] + c2 * grad * grad;
    p[i] = p[i] * keep - rate * m[i] / (std::sqrt(v[i]) * root + eps);
  }
}

/// In lanes of its own choice, so that one addition need not wait for the one before and the order never changes.
template <class T>
double sum_of_squares(const T* g, std::int64_t n) {
  constexpr std::int64_t kLanes = 16;
  double sums[kLanes] = {};
  const std::int64_t whole = n - n % kLanes;
  for (std::int64_t i = 0; i < whole; i += kLanes) {
    for (std::int64_t lane = 0; lane < kLanes; ++lane) {
      const auto x = static_cast<double>(g[i + lane]);
      sums[lane] += x * x;
    }
  }
  for (std::int64_t i = whole; i < n; ++i) sums[0] += static_cast<double>(g[i]) * static_cast<double>(g[i]);
  return std::accumulate(sums, sums + kLanes, 0.0);
}

}  // namespace

AdamW::AdamW(std::vector<Tensor> parameters, const TrainConfig& config) : config_(config), parameters_(std::move(parameters)) {
  for (const Tensor& p : parameters_) {
    first_.push_back(torch::zeros_like(p, torch::MemoryFormat::Contiguous));
    second_.push_back(torch::zeros_like(p, torch::MemoryFormat::Contiguous));
  }
}

void AdamW::step(const std::vector<Tensor>& grads, double lr, double grad_scale) {
  const torch::NoGradGuard no_grad;
  ++updates_;
  const auto t = static_cast<double>(updates_);
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    Tensor& p = parameters_[i];
    const bool decays = config_.decay == "all" || p.dim() >= 2;
    const Update u{lr,
                   decays ? config_.weight_decay : 0,
                   config_.betas[0],
                   config_.betas[1],
                   config_.eps,
                   1 - std::pow(config_.betas[0], t),
                   1 - std::pow(config_.betas[1], t),
                   grad_scale};
    AT_DISPATCH_FLOATING_TYPES(p.scalar_type(), "adamw", [&] {
      update(p.data_ptr<scalar_t>(), first_[i].data_ptr<scalar_t>(), second_[i].data_ptr<scalar_t>(),
             grads[i].data_ptr<scalar_t>(), p.numel(), u);
    });
  }
}

double gradient_norm(const std::vector<Tensor>& grads) {
  double sum = 0;
  for (const Tensor& g : grads) {
    AT_DISPATCH_FLOATING_TYPES(g.scalar_type(), "gradient_norm",
                               [&] { sum += sum_of_squares(g.data_ptr<scalar_t>(), g.numel()); });
  }
  return std::sqrt(sum);
}

}  // namespace posenc
