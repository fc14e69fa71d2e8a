#include "kernels/rows.h"

#include <algorithm>
#include <cmath>

#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/rows.cpp"
#include <hwy/foreach_target.h>

#include "kernels/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace posenc::kernels::HWY_NAMESPACE {

/// The first `left` lanes, zeros behind; all of them where that many are left.
HWY_INLINE FloatVec load(const float* from, Index left) {
  const Floats d;
  if (left >= kLanes) return hn::LoadU(d, from);
  return hn::MaskedLoad(hn::FirstN(d, static_cast<std::size_t>(left)), d, from);
}
HWY_INLINE void store(FloatVec v, float* to, Index left) {
  const Floats d;
  if (left >= kLanes) hn::StoreU(v, d, to);
  else hn::BlendedStore(v, hn::FirstN(d, static_cast<std::size_t>(left)), d, to);
}

void rms_norm_rows(const float* x, const float* weight, Index rows, Index width, float eps, float* y, float* r) {
  const Floats d;
  for (Index i = 0; i < rows; ++i, x += width, y += width) {
    FloatVec squares = hn::Zero(d);
    for (Index c = 0; c < width; c += kLanes) {
      const FloatVec v = load(x + c, width - c);
      squares = hn::MulAdd(v, v, squares);
    }
    r[i] = 1 / std::sqrt(sum_of(squares) / static_cast<float>(width) + eps);
    for (Index c = 0; c < width; c += kLanes)
      store(hn::Mul(hn::Mul(load(x + c, width - c), hn::Set(d, r[i])), load(weight + c, width - c)), y + c, width - c);
  }
}

void rms_norm_gradient(const float* x, const float* weight, const float* r, const float* dy, Index rows, Index width, float* dx,
                       float* dweight) {
  const Floats d;
  std::fill_n(dweight, width, 0.0f);
  for (Index i = 0; i < rows; ++i, x += width, dy += width, dx += width) {
    FloatVec product = hn::Zero(d);  // Σ weight·dy·x
    for (Index c = 0; c < width; c += kLanes)
      product = hn::MulAdd(hn::Mul(load(weight + c, width - c), load(dy + c, width - c)), load(x + c, width - c), product);
    const FloatVec scale = hn::Set(d, r[i]);
    const FloatVec pull = hn::Set(d, r[i] * r[i] * r[i] * sum_of(product) / static_cast<float>(width));
    for (Index c = 0; c < width; c += kLanes) {
      const Index left = width - c;
      const FloatVec v = load(x + c, left), g = hn::Mul(load(dy + c, left), scale);
      store(hn::NegMulAdd(v, pull, hn::Mul(g, load(weight + c, left))), dx + c, left);
      store(hn::MulAdd(g, v, load(dweight + c, left)), dweight + c, left);
    }
  }
}

void softmax_nll_rows(const float* logits, const std::int64_t* targets, Index rows, Index width, float* nll, float* dlogits) {
  const Floats d;
  const FloatVec lowest = hn::Set(d, -1e30f);
  for (Index i = 0; i < rows; ++i, logits += width) {
    FloatVec top = lowest;
    for (Index c = 0; c + kLanes <= width; c += kLanes) top = hn::Max(top, hn::LoadU(d, logits + c));
    float max = max_of(top);
    for (Index c = width / kLanes * kLanes; c < width; ++c) max = std::max(max, logits[c]);
    FloatVec sums = hn::Zero(d);
    float* out = dlogits ? dlogits + i * width : nullptr;
    for (Index c = 0; c < width; c += kLanes) {
      const Index left = width - c;
      FloatVec p = exp_negative(hn::Sub(load(logits + c, left), hn::Set(d, max)));
      if (left < kLanes) p = hn::IfThenElseZero(hn::FirstN(d, static_cast<std::size_t>(left)), p);
      if (out) store(p, out + c, left);
      sums = hn::Add(sums, p);
    }
    const float sum = sum_of(sums);
    nll[i] = max + std::log(sum) - logits[targets[i]];
    if (!out) continue;
    for (Index c = 0; c < width; c += kLanes) store(hn::Mul(load(out + c, width - c), hn::Set(d, 1 / sum)), out + c, width - c);
    out[targets[i]] -= 1;
  }
}

/// σ(x)
HWY_INLINE FloatVec sigmoid(FloatVec x) {
  const Floats d;
  const FloatVec one = hn::Set(d, 1.0f);
  const FloatVec e = exp_negative(hn::Neg(hn::Abs(x)));  // of the negative side: never overflows
  const FloatVec small = hn::Div(e, hn::Add(one, e));
  return hn::IfThenElse(hn::Lt(x, hn::Zero(d)), small, hn::Sub(one, small));
}

void swiglu_numbers(const float* gate, const float* up, Index n, float* y) {
  for (Index i = 0; i < n; i += kLanes) {
    const FloatVec g = load(gate + i, n - i);
    store(hn::Mul(hn::Mul(g, sigmoid(g)), load(up + i, n - i)), y + i, n - i);
  }
}

void swiglu_gradient(const float* gate, const float* up, const float* dy, Index n, float* dgate, float* dup) {
  const FloatVec one = hn::Set(Floats(), 1.0f);
  for (Index i = 0; i < n; i += kLanes) {
    const Index left = n - i;
    const FloatVec g = load(gate + i, left), s = sigmoid(g), silu = hn::Mul(g, s), d = load(dy + i, left);
    store(hn::Mul(d, silu), dup + i, left);
    // silu' = σ·(1 + g·(1 − σ)) = σ + silu·(1 − σ)
    store(hn::Mul(hn::Mul(d, load(up + i, left)), hn::MulAdd(silu, hn::Sub(one, s), s)), dgate + i, left);
  }
}

}  // namespace posenc::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace posenc::kernels {

HWY_EXPORT(rms_norm_rows);
HWY_EXPORT(rms_norm_gradient);
HWY_EXPORT(softmax_nll_rows);
HWY_EXPORT(swiglu_numbers);
HWY_EXPORT(swiglu_gradient);

void rms_norm(const float* x, const float* weight, std::int64_t rows, std::int64_t width, float eps, float* y, float* r) {
  HWY_DYNAMIC_DISPATCH(rms_norm_rows)(x, weight, rows, width, eps, y, r);
}
void rms_norm_backward(const float* x, const float* weight, const float* r, const float* dy, std::int64_t rows,
                       std::int64_t width, float* dx, float* dweight) {
  HWY_DYNAMIC_DISPATCH(rms_norm_gradient)(x, weight, r, dy, rows, width, dx, dweight);
}
void softmax_nll(const float* logits, const std::int64_t* targets, std::int64_t rows, std::int64_t width, float* nll,
                 float* dlogits) {
  HWY_DYNAMIC_DISPATCH(softmax_nll_rows)(logits, targets, rows, width, nll, dlogits);
}
void swiglu(const float* gate, const float* up, std::int64_t n, float* y) {
  HWY_DYNAMIC_DISPATCH(swiglu_numbers)(gate, up, n, y);
}
void swiglu_backward(const float* gate, const float* up, const float* dy, std::int64_t n, float* dgate, float* dup) {
  HWY_DYNAMIC_DISPATCH(swiglu_gradient)(gate, up, dy, n, dgate, dup);
}

}  // namespace posenc::kernels
#endif
