// Vectors of floats and what is computed on them. Included once per Highway target (hence the odd guard).
#if defined(POSENC_KERNELS_VECTOR_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef POSENC_KERNELS_VECTOR_INL_H_
#undef POSENC_KERNELS_VECTOR_INL_H_
#else
#define POSENC_KERNELS_VECTOR_INL_H_
#endif

#include <hwy/highway.h>

#include <cstdint>

HWY_BEFORE_NAMESPACE();
namespace posenc::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Index = std::int64_t;
using Floats = hn::ScalableTag<float>;
using FloatVec = hn::Vec<Floats>;

constexpr Index kLanes = static_cast<Index>(hn::MaxLanes(Floats()));
constexpr Index round_up(Index n, Index to) { return (n + to - 1) / to * to; }

/// e^x for x ≤ 0; 0 below −87, NaN where x is. Cody and Waite's reduction and a polynomial of degree 6: 2 units in the last place.
HWY_INLINE FloatVec exp_negative(FloatVec x) {
  const Floats d;
  const hn::RebindToSigned<Floats> di;
  const auto tiny = hn::Lt(x, hn::Set(d, -87.0f));
  const FloatVec clamped = hn::Max(x, hn::Set(d, -87.0f));
  const FloatVec n = hn::Round(hn::Mul(clamped, hn::Set(d, 1.44269504f)));
  FloatVec r = hn::NegMulAdd(n, hn::Set(d, 0.693359375f), clamped);
  r = hn::NegMulAdd(n, hn::Set(d, -2.12194440e-4f), r);
  FloatVec p = hn::Set(d, 1.9875691500e-4f);
  p = hn::MulAdd(p, r, hn::Set(d, 1.3981999507e-3f));
  p = hn::MulAdd(p, r, hn::Set(d, 8.3334519073e-3f));
  p = hn::MulAdd(p, r, hn::Set(d, 4.1665795894e-2f));
  p = hn::MulAdd(p, r, hn::Set(d, 1.6666665459e-1f));
  p = hn::MulAdd(p, r, hn::Set(d, 5.0000001201e-1f));
  p = hn::Add(hn::MulAdd(p, hn::Mul(r, r), r), hn::Set(d, 1.0f));
  const auto exponent = hn::ShiftLeft<23>(hn::ConvertTo(di, n));
  const FloatVec value = hn::BitCast(d, hn::Add(hn::BitCast(di, p), exponent));
  return hn::IfThenElse(hn::IsNaN(x), x, hn::IfThenElse(tiny, hn::Zero(d), value));
}

/// The lanes added up.
HWY_INLINE float sum_of(FloatVec v) { return hn::GetLane(hn::SumOfLanes(Floats(), v)); }
HWY_INLINE float max_of(FloatVec v) { return hn::GetLane(hn::MaxOfLanes(Floats(), v)); }

}  // namespace posenc::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
