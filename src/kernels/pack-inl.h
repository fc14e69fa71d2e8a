// Copies of queries, keys and values as the products want them: turned, scaled, padded with zeros to whole vectors, and once more
// transposed. Included once per Highway target.
#if defined(POSENC_KERNELS_PACK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef POSENC_KERNELS_PACK_INL_H_
#undef POSENC_KERNELS_PACK_INL_H_
#else
#define POSENC_KERNELS_PACK_INL_H_
#endif

#include <hwy/aligned_allocator.h>

#include "kernels/attention.h"
#include "kernels/multiply-inl.h"

HWY_BEFORE_NAMESPACE();
namespace posenc::kernels::HWY_NAMESPACE {

/// A matrix whose rows are whole vectors.
class Buffer {
 public:
  /// [rows, columns], columns padded to whole vectors; contents are whatever was there.
  void shape(Index rows, Index columns) {
    columns_ = round_up(columns, kLanes);
    if (size_ < rows * columns_) {
      size_ = rows * columns_;
      data_ = hwy::AllocateAligned<float>(static_cast<std::size_t>(size_));
    }
  }
  void zero(Index begin, Index end) { std::fill(row(begin), row(end), 0.0f); }
  float* row(Index i) { return data_.get() + i * columns_; }
  const float* row(Index i) const { return data_.get() + i * columns_; }
  /// Zeros behind the first `columns` of a row.
  void pad(Index i, Index columns) { std::fill(row(i) + columns, row(i + 1), 0.0f); }
  Index stride() const { return columns_; }
  Strided view(Index i = 0) const { return {row(i), columns_, 1}; }
  Strided transposed(Index i = 0) const { return {row(i), 1, columns_}; }

 private:
  hwy::AlignedFreeUniquePtr<float[]> data_;
  Index size_ = 0, columns_ = 0;
};

/// out = factor·R_i x, for row i of a rotation; `back` turns the other way (the gradient).
inline void turn_row(const float* x, Index width, const Rotation& r, Index i, float factor, bool back, float* HWY_RESTRICT out) {
  Index done = 0;
  if (r.cos) {
    const float *cos = r.cos + i * r.pairs, *sin = r.sin + i * r.pairs;
    const float sign = back ? -factor : factor;
    done = 2 * r.pairs;
    if (r.interleaved) {
      for (Index p = 0; p < r.pairs; ++p) {
        const float a = x[2 * p], b = x[2 * p + 1];
        out[2 * p] = factor * a * cos[p] - sign * b * sin[p];
        out[2 * p + 1] = sign * a * sin[p] + factor * b * cos[p];
      }
    } else {
      const float* second = x + r.pairs;
      for (Index p = 0; p < r.pairs; ++p) {
        out[p] = factor * x[p] * cos[p] - sign * second[p] * sin[p];
        out[p + r.pairs] = sign * x[p] * sin[p] + factor * second[p] * cos[p];
      }
    }
  }
  for (Index d = done; d < width; ++d) out[d] = factor * x[d];
}

/// Rows [first, first + n) of a matrix of `width` columns, transposed: out [width, ld].
inline void transpose(const Buffer& in, Index first, Index n, Index width, float* out, Index ld) {
  constexpr Index kBlock = 8;
  for (Index i = 0; i < n; i += kBlock) {
    const Index rows = std::min(kBlock, n - i);
    for (Index d = 0; d < width; ++d) {
      float* to = out + d * ld + i;
      if (rows == kBlock) {
        for (Index r = 0; r < kBlock; ++r) to[r] = in.row(first + i + r)[d];
      } else {
        for (Index r = 0; r < rows; ++r) to[r] = in.row(first + i + r)[d];
      }
    }
  }
}

}  // namespace posenc::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
