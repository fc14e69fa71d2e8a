#pragma once
// Operations on rows of floats that would otherwise be several passes over memory each: plain arrays, no torch; SIMD as in
// attention.h. `rows` rows of `width` numbers, dense. Tests hold them to the formulas in double.

#include <cstdint>

namespace posenc::kernels {

/// y = x·r·weight with r = 1/√(mean(x²) + eps) of each row, which backward needs. RMSNorm, Zhang, Sennrich 2019
/// (arXiv:1910.07467).
void rms_norm(const float* x, const float* weight, std::int64_t rows, std::int64_t width, float eps, float* y, float* r);
/// Writes dx and dweight.
void rms_norm_backward(const float* x, const float* weight, const float* r, const float* dy, std::int64_t rows,
                       std::int64_t width, float* dx, float* dweight);

/// −log softmax(logits)[target] of each row, and its gradient by the logits, softmax − 1[target], unless dlogits is null.
void softmax_nll(const float* logits, const std::int64_t* targets, std::int64_t rows, std::int64_t width, float* nll,
                 float* dlogits);

/// y = silu(gate)·up, n numbers. SwiGLU, Shazeer 2020 (arXiv:2002.05202).
void swiglu(const float* gate, const float* up, std::int64_t n, float* y);
void swiglu_backward(const float* gate, const float* up, const float* dy, std::int64_t n, float* dgate, float* dup);

}  // namespace posenc::kernels
