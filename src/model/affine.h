#pragma once
// y = x·Wᵀ + b, the products of a transformer's projections, by oneDNN's sgemm: for the shapes of small models it is as fast as
// OpenBLAS' or up to a fifth faster, and it does not depend on which BLAS LibTorch found.

#include <torch/types.h>

namespace posenc {

using torch::Tensor;

/// x [..., in], weight [out, in], bias [out] or undefined → [..., out]. Other types than float32 take torch::linear, its
/// reference.
Tensor affine(const Tensor& x, const Tensor& weight, const Tensor& bias = {});

}  // namespace posenc
