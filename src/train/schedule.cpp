#include "train/schedule.h"

#include <cmath>
#include <numbers>

namespace posenc {

double learning_rate(const TrainConfig& c, std::int64_t step) {
  if (step < c.warmup) return c.lr * static_cast<double>(step + 1) / static_cast<double>(c.warmup + 1);
  if (c.schedule == "constant") return c.lr;
  const double low = c.min_lr.value_or(c.lr / 10);
  if (step >= c.steps) return low;
  const double progress = static_cast<double>(step - c.warmup) / static_cast<double>(c.steps - c.warmup);  // in [0, 1)
  const double share = c.schedule == "linear" ? 1 - progress : 0.5 * (1 + std::cos(std::numbers::pi * progress));
  return low + share * (c.lr - low);
}

}  // namespace posenc
