#pragma once
// The temperature axis: a factor on the logits q·k of each query (see TemperatureConfig).

#include <torch/types.h>

#include "model/position.h"
#include "schemes/scheme.h"

namespace posenc {

/// τ of the frame's queries, [1, Q, 1] or [H, Q, 1] float64 or the dtype of `learned`; undefined when it is 1 everywhere.
/// `learned` [H] is ssmax's s.
Tensor temperature(const TemperatureConfig& config, const Tensor& learned, const Frame& frame, bool training);

/// ssmax's s for which the mean of s·ln n over n = 1 … length is 1: 0.168 at 1024 (Nakanishi 2025, arXiv:2501.19399).
double ssmax_init(std::int64_t length);

}  // namespace posenc
