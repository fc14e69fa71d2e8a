// Products of small matrices held in cache, for one instruction set; included once per Highway target (hence the odd guard).
#if defined(POSENC_KERNELS_MULTIPLY_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef POSENC_KERNELS_MULTIPLY_INL_H_
#undef POSENC_KERNELS_MULTIPLY_INL_H_
#else
#define POSENC_KERNELS_MULTIPLY_INL_H_
#endif

#include <algorithm>

#include "kernels/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace posenc::kernels::HWY_NAMESPACE {

/// Rows and vectors of one block of results: as many as registers hold beside the operands.
constexpr int kBlockRows = HWY_TARGET <= HWY_AVX3 ? 8 : 6;
constexpr int kBlockVectors = 2;

/// A matrix read by strides, so that a transpose is the same memory.
struct Strided {
  const float* data;
  Index row_stride, column_stride;
};

/// C [kRows, kVectors·lanes] = (C +) A·B, with A [kRows, depth], B [depth, …] of row stride ldb.
template <int kRows, int kVectors>
HWY_INLINE void multiply_block(Index depth, Strided a, const float* HWY_RESTRICT b, Index ldb, float* HWY_RESTRICT c, Index ldc,
                               bool add) {
  const Floats d;
  FloatVec sum[kRows][kVectors];
#pragma GCC unroll 8
  for (int m = 0; m < kRows; ++m) {
#pragma GCC unroll 2
    for (int n = 0; n < kVectors; ++n) sum[m][n] = add ? hn::LoadU(d, c + m * ldc + n * kLanes) : hn::Zero(d);
  }
  for (Index k = 0; k < depth; ++k) {
    FloatVec row[kVectors];
#pragma GCC unroll 2
    for (int n = 0; n < kVectors; ++n) row[n] = hn::LoadU(d, b + k * ldb + n * kLanes);
#pragma GCC unroll 8
    for (int m = 0; m < kRows; ++m) {
      const FloatVec factor = hn::Set(d, a.data[m * a.row_stride + k * a.column_stride]);
#pragma GCC unroll 2
      for (int n = 0; n < kVectors; ++n) sum[m][n] = hn::MulAdd(factor, row[n], sum[m][n]);
    }
  }
#pragma GCC unroll 8
  for (int m = 0; m < kRows; ++m) {
#pragma GCC unroll 2
    for (int n = 0; n < kVectors; ++n) hn::StoreU(sum[m][n], d, c + m * ldc + n * kLanes);
  }
}

/// The same for any number of rows up to kBlockRows.
template <int kVectors, int kRows = kBlockRows>
HWY_INLINE void multiply_rows(Index rows, Index depth, Strided a, const float* b, Index ldb, float* c, Index ldc, bool add) {
  if constexpr (kRows > 0) {
    if (rows == kRows) multiply_block<kRows, kVectors>(depth, a, b, ldb, c, ldc, add);
    else multiply_rows<kVectors, kRows - 1>(rows, depth, a, b, ldb, c, ldc, add);
  }
}

/// What a block of rows takes of a product: the inner indices [from, to) and the first `columns` columns, a multiple of the lanes.
struct Extent {
  Index from, to, columns;
};

/// C [rows, columns] = (C +) A·B, where the rows [r, r + block) take only extent(r, block): beyond it, A or what is wanted of C is
/// zero.
template <class ExtentOf>
HWY_INLINE void multiply(Index rows, Strided a, const float* b, Index ldb, float* c, Index ldc, bool add,
                         const ExtentOf& extent_of) {
  for (Index r = 0; r < rows; r += kBlockRows) {
    const Index block = std::min<Index>(kBlockRows, rows - r);
    const Extent e = extent_of(r, block);
    if (e.to <= e.from) continue;
    const Strided part{a.data + r * a.row_stride + e.from * a.column_stride, a.row_stride, a.column_stride};
    const float* b_part = b + e.from * ldb;
    Index n = 0;
    for (; n + kBlockVectors * kLanes <= e.columns; n += kBlockVectors * kLanes)
      multiply_rows<kBlockVectors>(block, e.to - e.from, part, b_part + n, ldb, c + r * ldc + n, ldc, add);
    for (; n < e.columns; n += kLanes) multiply_rows<1>(block, e.to - e.from, part, b_part + n, ldb, c + r * ldc + n, ldc, add);
  }
}

}  // namespace posenc::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
