// Attention of one head, tile by tile: which keys a tile holds and who sees them, its logits with all their terms, the running
// softmax. Included once per Highway target.
#if defined(POSENC_KERNELS_ATTENTION_FORWARD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef POSENC_KERNELS_ATTENTION_FORWARD_INL_H_
#undef POSENC_KERNELS_ATTENTION_FORWARD_INL_H_
#else
#define POSENC_KERNELS_ATTENTION_FORWARD_INL_H_
#endif

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/attention.h"
#include "kernels/multiply-inl.h"
#include "kernels/pack-inl.h"

HWY_BEFORE_NAMESPACE();
namespace posenc::kernels::HWY_NAMESPACE {

constexpr Index kQueryTile = HWY_TARGET <= HWY_AVX3 ? 32 : 36;  // whole blocks of rows
constexpr Index kKeyTile = 128;

/// What a table by distance needs to lie beside keys in rising order: entry t is of distance keys − 1 − t, and zeros follow for
/// the negative distances that a tile on the diagonal touches.
constexpr Index kBeyond = kKeyTile + kQueryTile;

/// Vectors by distance in that order, as rows and as columns.
struct Relative {
  Buffer rows, columns;

  void pack(const float* source, Index keys, Index width) {
    rows.shape(keys + kBeyond, width);
    rows.zero(0, keys + kBeyond);
    for (Index t = 0; t < keys; ++t) std::copy_n(source + (keys - 1 - t) * width, width, rows.row(t));
    columns.shape(width, keys + kBeyond + kLanes);  // kLanes: no stride that is a power of two
    columns.zero(0, width);
    transpose(rows, 0, keys, width, columns.row(0), columns.stride());
  }
};

/// One batch entry and key/value head, packed for the queries of all the heads it serves.
struct Group {
  Index batch, kv_head;
  Buffer k, v;                  ///< rows [keys padded to tiles, width]
  Buffer k_columns, v_columns;  ///< the transpose of each tile, [tiles·width, kKeyTile]

  void pack(const AttentionShape& s, const AttentionInputs& in, bool backward) {
    const Index padded = round_up(s.keys, kKeyTile);
    k.shape(padded, s.width);
    v.shape(padded, s.value_width);
    for (Index j = 0; j < s.keys; ++j) {
      turn_row(in.k.at(batch, kv_head, j), s.width, in.k_rotation, j, 1, false, k.row(j));
      std::copy_n(in.v.at(batch, kv_head, j), s.value_width, v.row(j));
      k.pad(j, s.width);
      v.pad(j, s.value_width);
    }
    k.zero(s.keys, padded);
    v.zero(s.keys, padded);
    pack_columns(k, padded, s.width, k_columns);
    if (backward) pack_columns(v, padded, s.value_width, v_columns);
  }

  static void pack_columns(const Buffer& rows, Index padded, Index width, Buffer& columns) {
    columns.shape(padded / kKeyTile * width, kKeyTile);
    for (Index j = 0; j < padded; j += kKeyTile) transpose(rows, j, kKeyTile, width, columns.row(j / kKeyTile * width), kKeyTile);
  }
};

/// The keys of one tile, and which of them each row of the query tile sees.
struct KeyTile {
  Index first;         ///< its first key
  Index keys;          ///< how many of its keys any row sees, from the first on
  Index query0, rows;  ///< index among the keys of the query tile's first row; its rows
  const Visibility* see;

  Index columns() const { return round_up(keys, kLanes); }
  /// Row r sees the columns [0, kept) and [from, to).
  struct Seen {
    Index kept, from, to;
    bool none() const { return kept == 0 && from >= to; }
  };
  Seen seen(Index r) const {
    const Index i = query0 + r;
    const Index to = std::clamp<Index>(i + 1 - first, 0, keys);
    return {std::clamp<Index>(std::min(see->keep_first, i + 1) - first, 0, keys), std::clamp<Index>(see->first(i) - first, 0, to),
            to};
  }
  /// Columns that the rows [r, r + block) see, in whole vectors.
  Extent block(Index r, Index block) const {
    const Seen a = seen(r), z = seen(r + block - 1);
    const Index to = round_up(std::max(z.to, z.kept), kLanes);
    const Index from = a.kept > 0 || z.kept > 0 ? 0 : a.from / kLanes * kLanes;
    return {std::min(from, to), to, to};
  }
};

/// What is added to the logits of one row: terms by key and by distance.
struct RowTerms {
  const float* by_distance = nullptr;  ///< column j of the tile reads entry j
  const float* by_key = nullptr;
  float constant = 0;
};

/// The logits of a row with its terms, −∞ where not seen; columns [from, to) of the block. `use(column, logits)` gets each vector.
template <class Use>
HWY_INLINE void for_each_logit(const float* s, Extent e, KeyTile::Seen seen, const RowTerms& terms, const Use& use) {
  const Floats d;
  const hn::RebindToSigned<Floats> di;
  const FloatVec unseen = hn::Set(d, -std::numeric_limits<float>::infinity());
  for (Index j = e.from; j < e.to; j += kLanes) {
    FloatVec x = hn::LoadU(d, s + j);
    if (terms.by_distance) x = hn::Add(x, hn::LoadU(d, terms.by_distance + j));
    if (terms.by_key) x = hn::Add(x, hn::Add(hn::LoadU(d, terms.by_key + j), hn::Set(d, terms.constant)));
    if (j < seen.from || j + kLanes > seen.to) {
      const auto column = hn::Iota(di, static_cast<std::int32_t>(j));
      const auto at = [&](Index c) { return hn::Set(di, static_cast<std::int32_t>(c)); };
      const auto kept = hn::Lt(column, at(seen.kept));
      const auto in_run = hn::AndNot(hn::Lt(column, at(seen.from)), hn::Lt(column, at(seen.to)));
      x = hn::IfThenElse(hn::RebindMask(d, hn::Or(kept, in_run)), x, unseen);
    }
    use(j, x);
  }
}

/// Zeros where the row's block leaves columns out.
HWY_INLINE void clear_outside(float* row, Extent e, Index columns) {
  if (e.from > 0) std::fill(row, row + e.from, 0.0f);
  if (e.to < columns) std::fill(row + e.to, row + columns, 0.0f);
}

/// Everything one thread needs for the queries of one head: the packed tile, its logits and its running results.
class HeadWork {
 public:
  HeadWork(const AttentionShape& s, const AttentionInputs& in) : s_(s), in_(in) {
    q_.shape(kQueryTile, s.width);
    logits_.shape(kQueryTile, kKeyTile);
    y_.shape(kQueryTile, s.value_width);
    if (in.relative_keys || in.relative_values) by_distance_.shape(kQueryTile, kBeyond);
  }

  /// Makes head h of batch entry b the one whose tiles follow.
  void begin(Index b, Index h) {
    b_ = b;
    h_ = h;
    const Index keys = s_.keys;
    if (in_.distance_bias) {
      const float* bias = in_.distance_bias + (in_.bias_heads == 1 ? 0 : h) * keys;
      bias_.assign(static_cast<std::size_t>(keys + kBeyond), 0.0f);
      std::reverse_copy(bias, bias + keys, bias_.begin());
    }
    if (in_.piecewise.slopes) {
      rises_.assign(static_cast<std::size_t>(keys + kBeyond), 0.0f);
      std::reverse_copy(in_.piecewise.by_distance, in_.piecewise.by_distance + keys, rises_.begin());
    }
    decay_ = in_.decay ? in_.decay + (b * s_.heads + h) * keys : nullptr;
    const Index relative_head = in_.relative_heads == 1 ? 0 : h;
    if (in_.relative_keys) relative_keys_.pack(in_.relative_keys + relative_head * keys * s_.width, keys, s_.width);
    if (in_.relative_values)
      relative_values_.pack(in_.relative_values + relative_head * keys * s_.value_width, keys, s_.value_width);
  }

  /// y and log_sum of the queries [first, first + rows).
  void forward(const Group& group, Index first, Index rows, Rows<float> y, float* log_sum) {
    load_queries(first, rows);
    y_.zero(0, rows);
    std::fill_n(max_, rows, -std::numeric_limits<float>::infinity());
    std::fill_n(sum_, rows, 0.0f);
    for_each_tile([&](const KeyTile& tile) {
      form_logits(group, tile);
      for (Index r = 0; r < rows; ++r) softmax_row(tile, r);
      const auto extent = [&](Index r, Index block) { return with_columns(tile.block(r, block), y_.stride()); };
      multiply(rows, logits_.view(), group.v.row(tile.first), group.v.stride(), y_.row(0), y_.stride(), true, extent);
      if (in_.relative_values) add_relative_values(tile);
    });
    for (Index r = 0; r < rows; ++r) {
      if (in_.sink) {
        const float top = std::max(max_[r], in_.sink[h_]);
        scale_row(r, std::exp(max_[r] - top));
        sum_[r] += std::exp(in_.sink[h_] - top);
        max_[r] = top;
      }
      const float inverse = 1 / sum_[r];
      float* out = y.at(b_, h_, first + r);
      for (Index c = 0; c < s_.value_width; ++c) out[c] = y_.row(r)[c] * inverse;
      log_sum[(b_ * s_.heads + h_) * s_.queries + first + r] = max_[r] + std::log(sum_[r]);
    }
  }

 protected:
  static Extent with_columns(Extent e, Index columns) { return {e.from, e.to, columns}; }

  void load_queries(Index first, Index rows) {
    first_ = first;
    rows_ = rows;
    query0_ = s_.first_query + first;
    for (Index r = 0; r < rows; ++r)
      turn_row(in_.q.at(b_, h_, first + r), s_.width, in_.q_rotation, first + r, query_factor(r), false, q_.row(r));
    for (Index r = 0; r < rows; ++r) q_.pad(r, s_.width);
  }

  float query_factor(Index r) const {
    if (!in_.temperature) return in_.scale;
    return in_.scale * in_.temperature[(in_.temperature_heads == 1 ? 0 : h_) * s_.queries + first_ + r];
  }

  /// The tiles of keys that any of the rows sees.
  template <class Use>
  void for_each_tile(const Use& use) const {
    const Index last = query0_ + rows_ - 1;  // the last key any row sees
    const Index run = s_.visible.first(query0_);
    for (Index j = 0; j <= last; j += kKeyTile) {
      if (j + kKeyTile <= run && j >= s_.visible.keep_first) {  // skip to the run's tile
        j = run / kKeyTile * kKeyTile;
      }
      use(KeyTile{j, std::min(kKeyTile, last + 1 - j), query0_, rows_, &s_.visible});
    }
  }

  /// q·k and q·a of the tile; other terms come with for_each_logit.
  void form_logits(const Group& group, const KeyTile& tile) {
    const auto extent = [&](Index r, Index block) { return Extent{0, s_.width, tile.block(r, block).columns}; };
    multiply(rows_, q_.view(), group.k_columns.row(tile.first / kKeyTile * s_.width), kKeyTile, logits_.row(0), kKeyTile, false,
             extent);
    if (in_.relative_keys) {
      const Extent all{0, s_.width, round_up(tile.keys + rows_ - 1, kLanes)};
      multiply(rows_, q_.view(), relative_keys_.columns.row(0) + entry(tile), relative_keys_.columns.stride(),
               by_distance_.row(0), by_distance_.stride(), false, [&](Index, Index) { return all; });
      add_by_key(tile, logits_);
    }
    if (in_.piecewise.slopes) {
      for (Index r = 0; r < rows_; ++r) add_piecewise(tile, r);
    }
    if (decay_) {
      const double base = decay_[query0_];
      for (Index j = 0; j < tile.keys; ++j) by_key_[j] = static_cast<float>(base - decay_[tile.first + j]);
      std::fill(by_key_ + tile.keys, by_key_ + tile.columns(), 0.0f);
    }
  }

  /// The runs of a row's columns, up to its own key, on which the piecewise bias is one line: use(first, end, piece), from the
  /// farthest key to the nearest, whose u falls.
  template <class Use>
  void for_each_piece(const KeyTile& tile, Index r, const Use& use) const {
    const PiecewiseBias& bias = in_.piecewise;
    const float* rise = rises_.data() + entry(tile) + rows_ - 1 - r;  // of column j
    const float factor = bias.by_query[first_ + r];
    const Index end = std::min(tile.keys, query0_ + r + 1 - tile.first);
    if (end <= 0) return;
    Index piece = std::lower_bound(bias.kinks, bias.kinks + bias.count, rise[0] * factor) - bias.kinks;
    for (Index j = 0; j < end; --piece) {
      const float* behind = rise + end;
      if (piece > 0)
        behind = std::partition_point(rise + j, rise + end, [&](float x) { return x * factor > bias.kinks[piece - 1]; });
      if (behind - rise > j) use(j, behind - rise, piece);
      j = behind - rise;
    }
  }

  void add_piecewise(const KeyTile& tile, Index r) {
    const PiecewiseBias& bias = in_.piecewise;
    const float* rise = rises_.data() + entry(tile) + rows_ - 1 - r;
    float* s = logits_.row(r);
    for_each_piece(tile, r, [&](Index j, Index end, Index piece) {
      const Index at = h_ * (bias.count + 1) + piece;
      const float slope = bias.slopes[at] * bias.by_query[first_ + r], intercept = bias.intercepts[at];
      for (; j < end; ++j) s[j] += slope * rise[j] + intercept;
    });
  }

  /// Where the tables by distance hold what row `rows − 1` reads at column 0.
  Index entry(const KeyTile& tile) const { return s_.keys - 1 - (query0_ + rows_ - 1 - tile.first); }

  RowTerms terms(const KeyTile& tile, Index r) const {
    RowTerms t;
    if (in_.distance_bias) t.by_distance = bias_.data() + entry(tile) + rows_ - 1 - r;
    if (decay_) {
      t.by_key = by_key_;
      t.constant = static_cast<float>((in_.decay_of_query ? decay_[query0_ + r] : 0) - decay_[query0_]);
    }
    return t;
  }

  static Extent block_of(const KeyTile& tile, Index r) {
    const Index begin = r / kBlockRows * kBlockRows;
    return tile.block(begin, std::min<Index>(kBlockRows, tile.rows - begin));
  }

  /// Turns the row's logits into weights relative to its running maximum.
  void softmax_row(const KeyTile& tile, Index r) {
    const Floats d;
    float* s = logits_.row(r);
    const Extent e = block_of(tile, r);
    const KeyTile::Seen seen = tile.seen(r);
    if (seen.none()) return std::fill(s, s + tile.columns(), 0.0f);
    FloatVec top = hn::Set(d, max_[r]);
    for_each_logit(s, e, seen, terms(tile, r), [&](Index j, FloatVec x) {
      hn::StoreU(x, d, s + j);
      top = hn::Max(top, x);
    });
    const float new_max = max_of(top);
    if (std::isinf(new_max) && new_max < 0) return std::fill(s, s + tile.columns(), 0.0f);  // a bias of −∞ hides all of them
    const FloatVec max = hn::Set(d, new_max);
    if (new_max > max_[r]) {
      scale_row(r, std::exp(max_[r] - new_max));
      max_[r] = new_max;
    }
    FloatVec sum = hn::Zero(d);
    for (Index j = e.from; j < e.to; j += kLanes) {
      const FloatVec p = exp_negative(hn::Sub(hn::LoadU(d, s + j), max));
      hn::StoreU(p, d, s + j);
      sum = hn::Add(sum, p);
    }
    sum_[r] += sum_of(sum);
    clear_outside(s, e, tile.columns());
  }

  void scale_row(Index r, float factor) {
    sum_[r] *= factor;
    for (Index c = 0; c < y_.stride(); ++c) y_.row(r)[c] *= factor;
  }

  /// The weights of the tile by distance instead of by key, zero where a row has none.
  void skew(const KeyTile& tile, const Buffer& by_key) {
    by_distance_.zero(0, rows_);
    for (Index r = 0; r < rows_; ++r) std::copy_n(by_key.row(r), tile.keys, by_distance_.row(r) + rows_ - 1 - r);
  }

  /// The way back: adds what by_distance_ holds to `by_key`.
  void add_by_key(const KeyTile& tile, Buffer& by_key) const {
    for (Index r = 0; r < rows_; ++r) {
      const float* from = by_distance_.row(r) + rows_ - 1 - r;
      for (Index j = 0; j < tile.keys; ++j) by_key.row(r)[j] += from[j];
    }
  }

  void add_relative_values(const KeyTile& tile) {
    skew(tile, logits_);
    const Extent all{0, tile.keys + rows_ - 1, y_.stride()};
    multiply(rows_, by_distance_.view(), relative_values_.rows.row(entry(tile)), relative_values_.rows.stride(), y_.row(0),
             y_.stride(), true, [&](Index, Index) { return all; });
  }

  AttentionShape s_;
  AttentionInputs in_;
  Index b_ = 0, h_ = 0;
  Index first_ = 0, rows_ = 0, query0_ = 0;  ///< the query tile: its first query, its rows, the first one's index among the keys
  Buffer q_, logits_, y_, by_distance_;
  Relative relative_keys_, relative_values_;
  std::vector<float> bias_, rises_;
  const double* decay_ = nullptr;
  float by_key_[kKeyTile];
  float max_[kQueryTile], sum_[kQueryTile];
};

}  // namespace posenc::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
