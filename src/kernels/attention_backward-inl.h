// Gradients of attention: the tiles' logits are formed again, and every term's gradient is taken while they are at hand. Included
// once per Highway target.
#if defined(POSENC_KERNELS_ATTENTION_BACKWARD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef POSENC_KERNELS_ATTENTION_BACKWARD_INL_H_
#undef POSENC_KERNELS_ATTENTION_BACKWARD_INL_H_
#else
#define POSENC_KERNELS_ATTENTION_BACKWARD_INL_H_
#endif

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/attention_forward-inl.h"

HWY_BEFORE_NAMESPACE();
namespace posenc::kernels::HWY_NAMESPACE {

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
    if (out_.piecewise.slopes) {
      drises_.assign(keys + kBeyond, 0.0f);
      dpieces_.assign(2 * static_cast<std::size_t>(in_.piecewise.count + 1), 0.0);
    }
    if (out_.relative_keys) drelative_keys_.zero(0, s_.keys + kBeyond);
    if (out_.relative_values) drelative_values_.zero(0, s_.keys + kBeyond);
    dsink_ = 0;
  }

  void store_tables() {
    const Index keys = s_.keys, head = b_ * s_.heads + h_;
    if (out_.distance_bias) std::reverse_copy(dbias_.begin(), dbias_.begin() + keys, out_.distance_bias + head * keys);
    if (out_.decay) std::copy_n(ddecay_.begin(), keys, out_.decay + head * keys);
    if (out_.sink) out_.sink[head] = dsink_;
    if (out_.piecewise.slopes) {
      const Index pieces = in_.piecewise.count + 1;
      std::copy_n(dpieces_.begin(), pieces, out_.piecewise.slopes + head * pieces);
      std::copy_n(dpieces_.begin() + pieces, pieces, out_.piecewise.intercepts + head * pieces);
      std::reverse_copy(drises_.begin(), drises_.begin() + keys, out_.piecewise.by_distance + head * keys);
    }
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
    std::fill_n(dfactor_, rows, 0.0);
    for_each_tile([&](const KeyTile& tile) { add_key_tile(group, tile); });
    if (out_.q.data || out_.temperature) store_queries(first, rows);
    if (out_.piecewise.slopes) std::copy_n(dfactor_, rows, out_.piecewise.by_query + (b_ * s_.heads + h_) * s_.queries + first);
  }

  void add_key_tile(const Group& group, const KeyTile& tile) {
    const Index rows = rows_;
    form_logits(group, tile);
    const auto to_columns = [&](Index r, Index block) { return Extent{0, s_.value_width, tile.block(r, block).columns}; };
    multiply(rows, dy_.view(), group.v_columns.row(tile.first / kKeyTile * s_.value_width), kKeyTile, dlogits_.row(0), kKeyTile,
             false, to_columns);
    if (in_.relative_values) add_relative_value_gradient(tile);
    std::fill(dby_key_, dby_key_ + tile.columns(), 0.0f);
    for (Index r = 0; r < rows; ++r) {
      gradient_row(tile, r);
      if (out_.piecewise.slopes) add_piecewise_gradient(tile, r);
    }
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
    add_by_key(tile, dlogits_);
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

  /// Of slope·u + intercept with u = rise·factor, from the gradients of the row's logits.
  void add_piecewise_gradient(const KeyTile& tile, Index r) {
    const PiecewiseBias& bias = in_.piecewise;
    const Index at = entry(tile) + rows_ - 1 - r;
    const float *rise = rises_.data() + at, *ds = dlogits_.row(r), factor = bias.by_query[first_ + r];
    float* drise = drises_.data() + at;
    for_each_piece(tile, r, [&](Index j, Index end, Index piece) {
      const float slope = bias.slopes[h_ * (bias.count + 1) + piece];
      float sum = 0, with_rise = 0;
      for (; j < end; ++j) {
        sum += ds[j];
        with_rise += ds[j] * rise[j];
        drise[j] += ds[j] * slope * factor;
      }
      dpieces_[static_cast<std::size_t>(piece)] += static_cast<double>(with_rise) * factor;
      dpieces_[static_cast<std::size_t>(bias.count + 1 + piece)] += sum;
      dfactor_[r] += static_cast<double>(with_rise) * slope;
    });
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
  std::vector<float> dbias_, drises_;
  std::vector<double> ddecay_, dpieces_;  ///< of the pieces: slopes, then intercepts
  float dsink_ = 0;
  float delta_[kQueryTile], dby_key_[kKeyTile];
  double dfactor_[kQueryTile];
};

}  // namespace posenc::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
