#pragma once
// kernels/rows.h as differentiable operations. Each falls back to LibTorch's own operations, its reference, for what is not float32.

#include <torch/types.h>

namespace posenc {

using torch::Tensor;

/// RMSNorm over the last dimension: x/√(mean(x²) + eps)·weight.
Tensor rms_norm(const Tensor& x, const Tensor& weight, double eps);

/// silu(gate)·up.
Tensor swiglu(const Tensor& gate, const Tensor& up);

/// Σ −log softmax(logits)[target]: logits [n, V], targets [n] int64 → a scalar. The gradient is formed with the loss, in one pass.
Tensor nll_sum(const Tensor& logits, const Tensor& targets);

}  // namespace posenc
