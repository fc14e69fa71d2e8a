#include <cmath>
#include <limits>
#include <vector>

#include "kernels/attention.h"

namespace posenc::kernels {
namespace {

using Index = std::int64_t;
using Row = std::vector<double>;

Row turned(const float* x, Index width, const Rotation& rotation, Index i) {
  Row out(x, x + width);
  if (!rotation.cos) return out;
  for (Index p = 0; p < rotation.pairs; ++p) {
    const Index first = rotation.interleaved ? 2 * p : p, second = rotation.interleaved ? 2 * p + 1 : p + rotation.pairs;
    const double cos = rotation.cos[i * rotation.pairs + p], sin = rotation.sin[i * rotation.pairs + p];
    out[static_cast<std::size_t>(first)] = x[first] * cos - x[second] * sin;
    out[static_cast<std::size_t>(second)] = x[first] * sin + x[second] * cos;
  }
  return out;
}

double dot(const Row& a, const Row& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

bool sees(const Visibility& visible, Index query, Index key) {
  return key <= query && (key >= visible.first(query) || key < visible.keep_first);
}

double piecewise(const PiecewiseBias& bias, Index h, double u) {
  Index p = 0;
  while (p < bias.count && bias.kinks[p] < u) ++p;
  const Index at = h * (bias.count + 1) + p;
  return bias.slopes[at] * u + bias.intercepts[at];
}

/// The logit of query i of head h (turned to q) on the turned key j.
double logit(const AttentionShape& s, const AttentionInputs& in, Index b, Index h, Index i, const Row& q, Index j, Row k) {
  const Index query = s.first_query + i, distance = query - j;
  if (in.relative_keys) {
    const float* a = in.relative_keys + ((in.relative_heads == 1 ? 0 : h) * s.keys + distance) * s.width;
    for (std::size_t c = 0; c < k.size(); ++c) k[c] += a[c];
  }
  double x = in.scale * dot(q, k);
  if (in.temperature) x *= in.temperature[(in.temperature_heads == 1 ? 0 : h) * s.queries + i];
  if (in.distance_bias) x += in.distance_bias[(in.bias_heads == 1 ? 0 : h) * s.keys + distance];
  if (in.piecewise.slopes)
    x += piecewise(in.piecewise, h, static_cast<double>(in.piecewise.by_distance[distance]) * in.piecewise.by_query[i]);
  if (in.decay) {
    const double* c = in.decay + (b * s.heads + h) * s.keys;
    x += (in.decay_of_query ? c[query] : 0) - c[j];
  }
  return x;
}

}  // namespace

void attention_reference(const AttentionShape& s, const AttentionInputs& in, Rows<double> y, double* log_sum) {
  for (Index b = 0; b < s.batch; ++b) {
    for (Index h = 0; h < s.heads; ++h) {
      const Index kv = h / (s.heads / s.kv_heads);
      for (Index i = 0; i < s.queries; ++i) {
        const Index query = s.first_query + i;
        const Row q = turned(in.q.at(b, h, i), s.width, in.q_rotation, i);
        Row logits(static_cast<std::size_t>(query + 1), -std::numeric_limits<double>::infinity());
        double top = in.sink ? in.sink[h] : -std::numeric_limits<double>::infinity();
        for (Index j = 0; j <= query; ++j) {
          if (!sees(s.visible, query, j)) continue;
          double& x = logits[static_cast<std::size_t>(j)];
          x = logit(s, in, b, h, i, q, j, turned(in.k.at(b, kv, j), s.width, in.k_rotation, j));
          top = std::max(top, x);
        }
        double total = in.sink ? std::exp(in.sink[h] - top) : 0;
        Row sum(static_cast<std::size_t>(s.value_width), 0.0);
        for (Index j = 0; j <= query; ++j) {
          const double weight = std::exp(logits[static_cast<std::size_t>(j)] - top);
          total += weight;
          const float* v = in.v.at(b, kv, j);
          const float* r = in.relative_values
                               ? in.relative_values + ((in.relative_heads == 1 ? 0 : h) * s.keys + query - j) * s.value_width
                               : nullptr;
          for (Index c = 0; c < s.value_width; ++c) sum[static_cast<std::size_t>(c)] += weight * (v[c] + (r ? r[c] : 0.0));
        }
        for (Index c = 0; c < s.value_width; ++c) y.at(b, h, i)[c] = sum[static_cast<std::size_t>(c)] / total;
        log_sum[(b * s.heads + h) * s.queries + i] = top + std::log(total);
      }
    }
  }
}

}  // namespace posenc::kernels
