// Disentangled attention: besides content to content, content to position (c2p) and position to content (p2c). He et al. 2021
// (arXiv:2006.03654), eqs. 2 to 4; logarithmic buckets: He et al. 2021 (arXiv:2111.09543), DeBERTa v2 and v3.
//   s_ij = [ q_i·k_j + q_i·(W_K P_δ) + k_j·(W_Q P_δ) ]/√(3D),   δ = min(bucket(i − j), k − 1)
// P [k, C] is shared by all layers, W_K and W_Q belong to one. With one of the two terms the scale is 1/√(2D).
// Departures: a causal model never looks ahead, so P has k rows, not 2k; no absolute positions before the head. The paper prints
// δ(j, i) in the third term; the authors' code and Hugging Face's take the row of the second, as here.
#include <algorithm>
#include <cmath>
#include <optional>

#include "schemes/info.h"
#ifdef POSENC_TENSORS
#include "schemes/scheme.h"
#endif

namespace posenc {
namespace {

struct DebertaParameters {
  std::optional<std::int64_t> buckets;
  std::optional<std::int64_t> log_distance;
  std::vector<std::string> terms = {"c2p", "p2c"};
};

/// k: v1 has as many as its training length, 512.
std::int64_t bucket_count(const DebertaParameters& p, const ModelShape& shape) {
  return p.buckets.value_or(std::max<std::int64_t>({shape.train_length, shape.positions, 2}));
}

}  // namespace

template <>
const Schema<DebertaParameters>& schema<DebertaParameters>() {
  static const Schema<DebertaParameters> table =
      Schema<DebertaParameters>("deberta")
          .field("buckets", &DebertaParameters::buckets,
                 "rows of the table; larger distances share the last; null: the training length")
          .range(2, 1 << 16)
          .field(
              "log_distance", &DebertaParameters::log_distance,
              "null: a row per distance (v1); else the first half of the rows is, the others are spaced by the logarithm up to "
              "this distance (v2: 256 rows, 512)")
          .range(2, 1 << 20)
          .field("terms", &DebertaParameters::terms, "c2p: query and distance; p2c: key and distance")
          .choices({"c2p", "p2c"})
          .check([](const DebertaParameters& p, const Reader& r) {
            if (p.terms.empty()) r.problem("terms", "names no term (c2p, p2c)");
            if (p.terms.size() > 2 || (p.terms.size() == 2 && p.terms[0] == p.terms[1])) r.problem("terms", "names a term twice");
          });
  return table;
}

#ifndef POSENC_TENSORS

namespace {

void check(const DebertaParameters& p, const ModelShape& shape, const Reader& reader) {
  const std::int64_t buckets = bucket_count(p, shape);
  if (!p.log_distance) return;
  if (buckets < 4 || buckets % 2 != 0) {
    reader.problem(p.buckets ? "buckets" : "log_distance",
                   "logarithmic buckets come in two halves of at least 2, not " + std::to_string(buckets) + " in all");
  } else if (*p.log_distance <= buckets) {
    reader.problem("log_distance", std::to_string(*p.log_distance) + " must exceed buckets = " + std::to_string(buckets));
  }
}

}  // namespace

SchemeInfo deberta_info() {
  SchemeInfo info;
  info.name = "deberta";
  info.aliases = {"disentangled"};
  info.title = "disentangled attention (DeBERTa)";
  info.paper = "He et al. 2021, arXiv:2006.03654; v3: arXiv:2111.09543";
  info.traits = {.relative = true, .per_layer = true, .content_dependent = true, .hooks = "score"};
  return scheme_info<DebertaParameters>(std::move(info), check);
}

#else

namespace {

/// The row of each distance up to the first that has the last row. v2's make_log_bucket_position:
///   bucket(d) = d up to half = k/2, then half + ⌈ln(d/half) / ln((M − 1)/half) · (half − 1)⌉
std::vector<std::int64_t> rows_of_distances(std::int64_t buckets, std::optional<std::int64_t> log_distance) {
  std::vector<std::int64_t> rows;
  const std::int64_t half = buckets / 2;
  for (std::int64_t d = 0; rows.empty() || rows.back() < buckets - 1; ++d) {
    std::int64_t bucket = d;
    if (log_distance && d > half) {
      const long double share =
          std::log(static_cast<long double>(d) / half) / std::log(static_cast<long double>(*log_distance - 1) / half);
      // The margin lowers products that are whole numbers in exact arithmetic but land an ulp above one.
      bucket = half + static_cast<std::int64_t>(std::ceil(share * static_cast<long double>(half - 1) - 1e-12L));
    }
    rows.push_back(std::min(bucket, buckets - 1));
  }
  return rows;
}

class Deberta : public Scheme {
 public:
  Deberta(const DebertaParameters& p, const ModelShape& shape)
      : buckets_(bucket_count(p, shape)),
        d_model_(shape.d_model),
        heads_(shape.heads),
        row_of_(torch::tensor(rows_of_distances(buckets_, p.log_distance), torch::kInt64)) {
    for (const std::string& term : p.terms) {
      Tensor& projection = term == "c2p" ? key_projection_ : query_projection_;
      projection = register_parameter(term == "c2p" ? "key_projection" : "query_projection",
                                      torch::zeros({shape.heads * shape.head_dim, shape.d_model}));
    }
  }

  std::vector<Tensor> register_shared() override {
    return {register_parameter("relative_embeddings", torch::zeros({buckets_, d_model_}))};
  }

  Tensor score(const Tensor& s, const Content& c, const Frame& frame) const override {
    const Tensor distance = frame.distances().clamp_max(static_cast<double>(row_of_.size(0) - 1)).to(torch::kInt64);
    const Tensor row = row_of_.index_select(0, distance.flatten()).view_as(distance).expand(s.sizes());  // [B, H, Q, K]
    Tensor added;
    if (key_projection_.defined()) added = torch::matmul(c.q, projected(key_projection_)).gather(3, row);
    if (query_projection_.defined()) {
      const Tensor p2c = torch::matmul(c.k, projected(query_projection_)).transpose(2, 3).gather(2, row);  // along the keys
      added = added.defined() ? added + p2c : p2c;
    }
    const double terms = 1.0 + key_projection_.defined() + query_projection_.defined();
    return (s + added / std::sqrt(static_cast<double>(c.q.size(3)))) / std::sqrt(terms);
  }

  void initialise(torch::Generator generator) override {
    const torch::NoGradGuard no_grad;
    for (Tensor projection : {key_projection_, query_projection_}) {
      if (projection.defined()) projection.normal_(0, 0.02, generator);
    }
  }
  void initialise_shared(torch::Generator generator) override {
    const torch::NoGradGuard no_grad;
    Tensor embeddings = shared().at(0);
    embeddings.normal_(0, 0.02, generator);
  }

 private:
  /// The rows of P projected for each head, [H, D, k].
  Tensor projected(const Tensor& projection) const {
    return torch::matmul(projection.view({heads_, -1, d_model_}), shared().at(0).t());
  }

  std::int64_t buckets_, d_model_, heads_;
  Tensor row_of_;                             ///< [n] int64; the last entry stands for every larger distance
  Tensor key_projection_, query_projection_;  ///< W_K, W_Q [H·D, C]
};

}  // namespace

std::shared_ptr<Scheme> make_deberta(const Json& parameters, const ModelShape& shape) {
  return std::make_shared<Deberta>(from_json<DebertaParameters>(parameters), shape);
}

#endif

}  // namespace posenc
