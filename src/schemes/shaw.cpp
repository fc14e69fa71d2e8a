// Relative position representations: one learned vector per clipped distance joins the keys and another the values. Shaw,
// Uszkoreit, Vaswani 2018 (arXiv:1803.02155), eqs. 3 and 4; a and b are shared by the heads.
//   s_ij = q_i·(k_j + a_d)/√D,   y_i = Σ_j p_ij (v_j + b_d),   d = min(i − j, max_distance)
// relative_key_query, as Hugging Face's BERT: s_ij = (q_i·k_j + q_i·a_d + k_j·a_d)/√D.
// Departure: a causal model never looks ahead, so the tables have max_distance + 1 rows, not 2·max_distance + 1.
#include <cmath>

#include "schemes/info.h"
#ifdef POSENC_TENSORS
#include "schemes/scheme.h"
#endif

namespace posenc {
namespace {

struct ShawParameters {
  std::int64_t max_distance = 16;
  std::string form = "relative_key";
  bool values = true;
};

}  // namespace

template <>
const Schema<ShawParameters>& schema<ShawParameters>() {
  static const Schema<ShawParameters> table =
      Schema<ShawParameters>("shaw")
          .field("max_distance", &ShawParameters::max_distance, "distances from here on share one vector")
          .range(1, 1 << 20)
          .field("form", &ShawParameters::form,
                 "relative_key: adds q·a[d] to q·k; relative_key_query: adds q·a[d] + k·a[d] (BERT)")
          .choices({"relative_key", "relative_key_query"})
          .field("values", &ShawParameters::values, "add a second vector per distance to the values");
  return table;
}

#ifndef POSENC_TENSORS

SchemeInfo shaw_info() {
  SchemeInfo info;
  info.name = "shaw";
  info.aliases = {"rpr", "relative_shaw", "relative_key"};
  info.title = "relative position representations (Shaw)";
  info.paper = "Shaw, Uszkoreit, Vaswani 2018, arXiv:1803.02155";
  info.traits = {.relative = true, .per_layer = true, .content_dependent = true, .hooks = "score, mix"};
  return scheme_info<ShawParameters>(std::move(info));
}

#else

namespace {

class Shaw : public Scheme {
 public:
  Shaw(const ShawParameters& p, const ModelShape& shape)
      : max_distance_(p.max_distance), key_query_(p.form == "relative_key_query") {
    keys_ = register_parameter("keys", torch::zeros({max_distance_ + 1, shape.head_dim}));
    if (p.values) values_ = register_parameter("values", torch::zeros({max_distance_ + 1, shape.head_dim}));
  }

  Tensor score(const Tensor& s, const Content& c, const Frame& frame) const override {
    const Tensor row = rows(frame).expand(s.sizes());                                              // [B, H, Q, K]
    Tensor added = torch::matmul(c.q, keys_.t()).gather(3, row);                                   // q_i·a_d
    if (key_query_) added = added + torch::matmul(c.k, keys_.t()).transpose(2, 3).gather(2, row);  // k_j·a_d
    return s + added / std::sqrt(static_cast<double>(c.q.size(3)));
  }

  Tensor mix(const Tensor& y, const Tensor& weights, const Frame& frame) const override {
    if (!values_.defined()) return y;
    const Tensor none = torch::zeros({weights.size(0), weights.size(1), weights.size(2), max_distance_ + 1}, weights.options());
    const Tensor weight_of = none.scatter_add(3, rows(frame).expand(weights.sizes()), weights);  // [B, H, Q, max_distance + 1]
    return y + torch::matmul(weight_of, values_);
  }

  /// A query's vectors; those of a key (relative_key_query) have no such form.
  bool has_content_terms() const override { return !key_query_; }
  ContentTerms content_terms(const Content&, const Frame& frame) const override {
    const Tensor distances = torch::arange(frame.key_count(), torch::kFloat64) * frame.queries.spacing;
    const Tensor row = distances.clamp_max(static_cast<double>(max_distance_)).to(torch::kInt64);  // [K]
    const auto of_distance = [&](const Tensor& table) { return table.index_select(0, row).unsqueeze(0); };
    return {.key_vectors = of_distance(keys_), .value_vectors = values_.defined() ? of_distance(values_) : Tensor()};
  }

  void initialise(torch::Generator generator) override {
    const torch::NoGradGuard no_grad;
    for (Tensor& table : parameters()) table.normal_(0, 0.02, generator);
  }

 private:
  /// [Q, K] int64: the row for each distance.
  Tensor rows(const Frame& frame) const {
    return frame.distances().clamp_max(static_cast<double>(max_distance_)).to(torch::kInt64);
  }

  Tensor keys_, values_;  ///< [max_distance + 1, D]
  std::int64_t max_distance_;
  bool key_query_;
};

}  // namespace

std::shared_ptr<Scheme> make_shaw(const Json& parameters, const ModelShape& shape) {
  return std::make_shared<Shaw>(from_json<ShawParameters>(parameters), shape);
}

#endif

}  // namespace posenc
