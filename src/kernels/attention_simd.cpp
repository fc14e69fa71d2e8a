#include <algorithm>
#include <cmath>
#include <limits>

#include "core/error.h"
#include "core/parallel.h"
#include "kernels/attention.h"
#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention_simd.cpp"
#include <hwy/foreach_target.h>

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
    transpose(rows, keys, width, columns.row(0), columns.stride());
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
    for (Index j = 0; j < padded; ++j) {
      float* to = columns.row(j / kKeyTile * width) + j % kKeyTile;
      const float* from = rows.row(j);
      for (Index d = 0; d < width; ++d) to[d * kKeyTile] = from[d];
    }
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
      for (Index r = 0; r < rows_; ++r) {
        const float* from = by_distance_.row(r) + rows_ - 1 - r;
        for (Index j = 0; j < tile.keys; ++j) logits_.row(r)[j] += from[j];
      }
    }
    if (decay_) {
      const double base = decay_[query0_];
      for (Index j = 0; j < tile.keys; ++j) by_key_[j] = static_cast<float>(base - decay_[tile.first + j]);
      std::fill(by_key_ + tile.keys, by_key_ + tile.columns(), 0.0f);
    }
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
  std::vector<float> bias_;
  const double* decay_ = nullptr;
  float by_key_[kKeyTile];
  float max_[kQueryTile], sum_[kQueryTile];
};

/// The gradients of one group; dk and dv gather over its heads and queries.
class GroupGradients : HeadWork {
 public:
  GroupGradients(const AttentionShape& s, const AttentionInputs& in, const AttentionGradients& out) : HeadWork(s, in), out_(out) {
    dy_.shape(kQueryTile, s.value_width);
    dlogits_.shape(kQueryTile, kKeyTile);
    dq_.shape(kQueryTile, s.width);
    dk_.shape(round_up(s.keys, kKeyTile), s.width);
    dv_.shape(round_up(s.keys, kKeyTile), s.value_width);
    if (in.relative_keys) drelative_keys_.shape(s.keys + kBeyond, s.width);
    if (in.relative_values) drelative_values_.shape(s.keys + kBeyond, s.value_width);
  }

  void run(const Group& group, Rows<const float> y, const float* log_sum, Rows<const float> dy) {
    const Index padded = round_up(s_.keys, kKeyTile), per_group = s_.heads / s_.kv_heads;
    dk_.zero(0, padded);
    dv_.zero(0, padded);
    for (Index h = group.kv_head * per_group; h < (group.kv_head + 1) * per_group; ++h) {
      begin(group.batch, h);
      clear_tables();
      for (Index first = 0; first < s_.queries; first += kQueryTile)
        add_tile(group, first, std::min(kQueryTile, s_.queries - first), y, log_sum, dy);
      store_tables();
    }
    for (Index j = 0; j < s_.keys; ++j) {
      if (out_.k.data) turn_row(dk_.row(j), s_.width, in_.k_rotation, j, 1, true, out_.k.at(group.batch, group.kv_head, j));
      if (out_.v.data) std::copy_n(dv_.row(j), s_.value_width, out_.v.at(group.batch, group.kv_head, j));
    }
  }

 private:
  void clear_tables() {
    const auto keys = static_cast<std::size_t>(s_.keys);
    if (out_.distance_bias) dbias_.assign(keys + kBeyond, 0.0f);
    if (out_.decay) ddecay_.assign(keys, 0.0);
    if (out_.relative_keys) drelative_keys_.zero(0, s_.keys + kBeyond);
    if (out_.relative_values) drelative_values_.zero(0, s_.keys + kBeyond);
    dsink_ = 0;
  }

  void store_tables() {
    const Index keys = s_.keys, head = b_ * s_.heads + h_;
    if (out_.distance_bias) std::reverse_copy(dbias_.begin(), dbias_.begin() + keys, out_.distance_bias + head * keys);
    if (out_.decay) std::copy_n(ddecay_.begin(), keys, out_.decay + head * keys);
    if (out_.sink) out_.sink[head] = dsink_;
    for (Index t = 0; t < keys; ++t) {
      const Index distance = head * keys + keys - 1 - t;
      if (out_.relative_keys) std::copy_n(drelative_keys_.row(t), s_.width, out_.relative_keys + distance * s_.width);
      if (out_.relative_values)
        std::copy_n(drelative_values_.row(t), s_.value_width, out_.relative_values + distance * s_.value_width);
    }
  }

  void add_tile(const Group& group, Index first, Index rows, Rows<const float> y, const float* log_sum, Rows<const float> dy) {
    load_queries(first, rows);
    log_sum_ = log_sum + (b_ * s_.heads + h_) * s_.queries + first;
    for (Index r = 0; r < rows; ++r) {
      const float *of_y = y.at(b_, h_, first + r), *of_dy = dy.at(b_, h_, first + r);
      std::copy_n(of_dy, s_.value_width, dy_.row(r));
      dy_.pad(r, s_.value_width);
      float dot = 0;
      for (Index c = 0; c < s_.value_width; ++c) dot += of_y[c] * of_dy[c];
      delta_[r] = dot;
      if (in_.sink) dsink_ -= std::exp(in_.sink[h_] - log_sum_[r]) * dot;
    }
    dq_.zero(0, rows);
    for_each_tile([&](const KeyTile& tile) { add_key_tile(group, tile); });
    if (out_.q.data || out_.temperature) store_queries(first, rows);
  }

  void add_key_tile(const Group& group, const KeyTile& tile) {
    const Index rows = rows_;
    form_logits(group, tile);
    const auto to_columns = [&](Index r, Index block) { return Extent{0, s_.value_width, tile.block(r, block).columns}; };
    multiply(rows, dy_.view(), group.v_columns.row(tile.first / kKeyTile * s_.value_width), kKeyTile, dlogits_.row(0), kKeyTile,
             false, to_columns);
    if (in_.relative_values) add_relative_value_gradient(tile);
    std::fill(dby_key_, dby_key_ + tile.columns(), 0.0f);
    for (Index r = 0; r < rows; ++r) gradient_row(tile, r);
    if (out_.decay) {
      for (Index j = 0; j < tile.keys; ++j) ddecay_[static_cast<std::size_t>(tile.first + j)] -= dby_key_[j];
    }
    // Rows that see column block [c, …): all from the one whose own key is c on.
    const auto from_diagonal = [&](Index columns) {
      return [=, this](Index c, Index) { return Extent{std::clamp<Index>(tile.first + c - query0_, 0, rows), rows, columns}; };
    };
    multiply(tile.keys, logits_.transposed(), dy_.row(0), dy_.stride(), dv_.row(tile.first), dv_.stride(), true,
             from_diagonal(dv_.stride()));
    multiply(tile.keys, dlogits_.transposed(), q_.row(0), q_.stride(), dk_.row(tile.first), dk_.stride(), true,
             from_diagonal(dk_.stride()));
    multiply(rows, dlogits_.view(), group.k.row(tile.first), group.k.stride(), dq_.row(0), dq_.stride(), true,
             [&](Index r, Index block) { return with_columns(tile.block(r, block), dq_.stride()); });
    if (in_.relative_values) add_by_distance(tile, logits_, dy_, drelative_values_);
    if (in_.relative_keys) {
      add_by_distance(tile, dlogits_, q_, drelative_keys_);
      const Extent all{0, tile.keys + rows - 1, dq_.stride()};
      multiply(rows, by_distance_.view(), relative_keys_.rows.row(entry(tile)), relative_keys_.rows.stride(), dq_.row(0),
               dq_.stride(), true, [&](Index, Index) { return all; });
    }
  }

  /// dlogits += dy·b of every pair.
  void add_relative_value_gradient(const KeyTile& tile) {
    const Extent all{0, s_.value_width, round_up(tile.keys + rows_ - 1, kLanes)};
    multiply(rows_, dy_.view(), relative_values_.columns.row(0) + entry(tile), relative_values_.columns.stride(),
             by_distance_.row(0), by_distance_.stride(), false, [&](Index, Index) { return all; });
    for (Index r = 0; r < rows_; ++r) {
      const float* from = by_distance_.row(r) + rows_ - 1 - r;
      for (Index j = 0; j < tile.keys; ++j) dlogits_.row(r)[j] += from[j];
    }
  }

  /// table[distance] += Σ_r pairs[r, key at that distance]·rows[r]; leaves the skewed pairs in by_distance_.
  void add_by_distance(const KeyTile& tile, const Buffer& pairs, const Buffer& rows, Buffer& table) {
    skew(tile, pairs);
    const Extent all{0, rows_, table.stride()};
    multiply(tile.keys + rows_ - 1, by_distance_.transposed(), rows.row(0), rows.stride(), table.row(entry(tile)), table.stride(),
             true, [&](Index, Index) { return all; });
  }

  /// Weights into logits_ and gradients of the logits into dlogits_, from the logits and dy·v.
  void gradient_row(const KeyTile& tile, Index r) {
    const Floats d;
    float *p = logits_.row(r), *ds = dlogits_.row(r);
    const Extent e = block_of(tile, r);
    const KeyTile::Seen seen = tile.seen(r);
    if (seen.none()) {
      std::fill(p, p + tile.columns(), 0.0f);
      std::fill(ds, ds + tile.columns(), 0.0f);
      return;
    }
    const FloatVec log_sum = hn::Set(d, log_sum_[r]), delta = hn::Set(d, delta_[r]);
    float* by_distance = out_.distance_bias ? dbias_.data() + entry(tile) + rows_ - 1 - r : nullptr;
    FloatVec row_sum = hn::Zero(d);
    for_each_logit(p, e, seen, terms(tile, r), [&](Index j, FloatVec x) {
      const FloatVec weight = exp_negative(hn::Min(hn::Zero(d), hn::Sub(x, log_sum)));
      const FloatVec grad = hn::Mul(weight, hn::Sub(hn::LoadU(d, ds + j), delta));
      hn::StoreU(weight, d, p + j);
      hn::StoreU(grad, d, ds + j);
      if (by_distance) hn::StoreU(hn::Add(hn::LoadU(d, by_distance + j), grad), d, by_distance + j);
      if (decay_) {
        hn::StoreU(hn::Add(hn::LoadU(d, dby_key_ + j), grad), d, dby_key_ + j);
        row_sum = hn::Add(row_sum, grad);
      }
    });
    if (out_.decay && in_.decay_of_query) ddecay_[static_cast<std::size_t>(query0_ + r)] += sum_of(row_sum);
    clear_outside(p, e, tile.columns());
    clear_outside(ds, e, tile.columns());
  }

  void store_queries(Index first, Index rows) {
    std::vector<float> row(static_cast<std::size_t>(s_.width));
    for (Index r = 0; r < rows; ++r) {
      turn_row(dq_.row(r), s_.width, in_.q_rotation, first + r, in_.scale, true, row.data());
      const float* q = in_.q.at(b_, h_, first + r);
      const float tau = query_factor(r) / in_.scale;
      float dot = 0;
      for (Index c = 0; c < s_.width; ++c) dot += row[static_cast<std::size_t>(c)] * q[c];
      if (out_.temperature) out_.temperature[(b_ * s_.heads + h_) * s_.queries + first + r] = dot;
      if (!out_.q.data) continue;
      float* to = out_.q.at(b_, h_, first + r);
      for (Index c = 0; c < s_.width; ++c) to[c] = row[static_cast<std::size_t>(c)] * tau;
    }
  }

  AttentionGradients out_;
  const float* log_sum_ = nullptr;
  Buffer dy_, dlogits_, dq_, dk_, dv_, drelative_keys_, drelative_values_;
  std::vector<float> dbias_;
  std::vector<double> ddecay_;
  float dsink_ = 0;
  float delta_[kQueryTile], dby_key_[kKeyTile];
};

void forward(const AttentionShape& shape, const AttentionInputs& in, Rows<float> y, float* log_sum, int threads) {
  const Index groups = shape.batch * shape.kv_heads, per_group = shape.heads / shape.kv_heads;
  const Index tiles = (shape.queries + kQueryTile - 1) / kQueryTile;
  // As many groups at a time as there are threads; then their heads, each in `chunks` that take every chunks-th tile, because later
  // tiles see more keys.
  const Index wave = std::max(1, threads), chunks = std::min(wave, tiles);
  std::vector<Group> packed(static_cast<std::size_t>(std::min(wave, groups)));
  for (Index begin = 0; begin < groups; begin += wave) {
    const Index count = std::min(wave, groups - begin);
    parallel_for(count, threads, [&](Index i) {
      Group& group = packed[static_cast<std::size_t>(i)];
      group.batch = (begin + i) / shape.kv_heads;
      group.kv_head = (begin + i) % shape.kv_heads;
      group.pack(shape, in, /*backward=*/false);
    });
    parallel_for(count * per_group * chunks, threads, [&](Index piece) {
      const Group& group = packed[static_cast<std::size_t>(piece / (per_group * chunks))];
      HeadWork work(shape, in);
      work.begin(group.batch, group.kv_head * per_group + piece / chunks % per_group);
      for (Index tile = piece % chunks; tile < tiles; tile += chunks) {
        const Index first = tile * kQueryTile;
        work.forward(group, first, std::min(kQueryTile, shape.queries - first), y, log_sum);
      }
    });
  }
}

void backward(const AttentionShape& shape, const AttentionInputs& in, Rows<const float> y, const float* log_sum,
              Rows<const float> dy, const AttentionGradients& out, int threads) {
  parallel_for(shape.batch * shape.kv_heads, threads, [&](Index i) {
    Group group;
    group.batch = i / shape.kv_heads;
    group.kv_head = i % shape.kv_heads;
    group.pack(shape, in, /*backward=*/true);
    GroupGradients(shape, in, out).run(group, y, log_sum, dy);
  });
}

}  // namespace posenc::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace posenc::kernels {

HWY_EXPORT(forward);
HWY_EXPORT(backward);

void attention_forward(const AttentionShape& shape, const AttentionInputs& in, Rows<float> y, float* log_sum, int threads) {
  HWY_DYNAMIC_DISPATCH(forward)(shape, in, y, log_sum, threads);
}

void attention_backward(const AttentionShape& shape, const AttentionInputs& in, Rows<const float> y, const float* log_sum,
                        Rows<const float> dy, const AttentionGradients& out, int threads) {
  HWY_DYNAMIC_DISPATCH(backward)(shape, in, y, log_sum, dy, out, threads);
}

std::vector<std::string> simd_targets() {
  std::vector<std::string> names;
  for (const auto target : hwy::SupportedAndGeneratedTargets()) names.push_back(hwy::TargetName(target));
  return names;
}

std::string simd_target() { return simd_targets().front(); }

void use_simd_target(const std::string& name) {
  hwy::SetSupportedTargetsForTest(0);
  if (!name.empty()) {
    const auto targets = hwy::SupportedAndGeneratedTargets();
    const auto found = std::find_if(targets.begin(), targets.end(), [&](auto t) { return hwy::TargetName(t) == name; });
    POSENC_CHECK(found != targets.end(), "no kernels for " + name);
    hwy::SetSupportedTargetsForTest(*found);
  }
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

}  // namespace posenc::kernels
#endif
