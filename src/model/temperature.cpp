#include "model/temperature.h"

#include <algorithm>
#include <cmath>

#include "extend/log_n.h"

namespace posenc {
namespace {

Tensor shaped(const Tensor& tau) { return tau.view({1, -1, 1}); }

/// The axis alone.
Tensor of_config(const TemperatureConfig& config, const Tensor& learned, const Frame& frame, bool training) {
  if (config.method == "ssmax") return learned.view({-1, 1, 1}) * shaped(frame.seen_counts().log()).to(learned.scalar_type());
  if (config.method == "log_n") {
    if (config.form == "inference") return training ? Tensor() : shaped(log_n_temperature(frame, frame.train_length));
    return shaped(frame.seen_counts().log() / std::log(static_cast<double>(std::max<std::int64_t>(frame.train_length, 2))));
  }
  if (config.method != "llama4" || training) return {};
  const Tensor seen = torch::arange(frame.first_query + 1, frame.first_query + frame.query_count() + 1, torch::kFloat64);
  const double floor = static_cast<double>(config.floor.value_or(frame.train_length));
  return shaped(1 + config.scale * torch::log1p((seen / floor).floor()));
}

}  // namespace

Tensor temperature(const TemperatureConfig& config, const Tensor& learned, const Frame& frame, bool training) {
  const Tensor own = of_config(config, learned, frame, training);
  if (!frame.temperature.defined()) return own;
  return own.defined() ? own * shaped(frame.temperature).to(own.scalar_type()) : shaped(frame.temperature);
}

double ssmax_init(std::int64_t length) {
  if (length < 2) return 1;
  return static_cast<double>(length) / std::lgamma(static_cast<double>(length) + 1);  // Σ ln n = ln length!
}

}  // namespace posenc
