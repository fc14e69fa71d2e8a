// Transformer-XL's relative attention: a learned projection of the distance's sinusoid beside every key, and two learned vectors
// that stand in for the query. Dai et al. 2019 (arXiv:1901.02860), §3.3:
//   s_ij = [ (q_i + u)·k_j + (q_i + v)·(W R_{i−j}) ]/√D,   R_d = (sin d·f_1 … sin d·f_{C/2}, cos d·f_1 … cos d·f_{C/2})
// u and v [H, D] are shared by all layers, W belongs to one (as in the authors' code). The authors' rel_shift is a gather by
// distance here.
#include <cmath>
#include <optional>

#include "schemes/info.h"
#include "schemes/sinusoidal.h"
#ifdef POSENC_TENSORS
#include "schemes/scheme.h"
#endif

namespace posenc {
namespace {

struct TransformerXlParameters {
  double base = 10000;
  std::optional<double> clamp_length;
};

}  // namespace

template <>
const Schema<TransformerXlParameters>& schema<TransformerXlParameters>() {
  static const Schema<TransformerXlParameters> table =
      Schema<TransformerXlParameters>("transformer_xl")
          .field("base", &TransformerXlParameters::base, "base of the wavelengths")
          .above(1)
          .field("clamp_length", &TransformerXlParameters::clamp_length, "larger distances count as this one; null: none is")
          .above(0);
  return table;
}

#ifndef POSENC_TENSORS

namespace {

void check(const TransformerXlParameters&, const ModelShape& shape, const Reader& reader) {
  if (shape.d_model % 2 != 0) {
    reader.problem("transformer_xl needs as many sines as cosines and so an even d_model, not " + std::to_string(shape.d_model));
  }
}

}  // namespace

SchemeInfo transformer_xl_info() {
  SchemeInfo info;
  info.name = "transformer_xl";
  info.aliases = {"txl", "rel_txl"};
  info.title = "Transformer-XL relative attention";
  info.paper = "Dai et al. 2019, arXiv:1901.02860";
  info.traits = {.relative = true, .real_positions = true, .per_layer = true, .content_dependent = true, .hooks = "score"};
  return scheme_info<TransformerXlParameters>(std::move(info), check);
}

#else

namespace {

class TransformerXl : public Scheme {
 public:
  TransformerXl(const TransformerXlParameters& p, const ModelShape& shape)
      : frequencies_(torch::tensor(sinusoidal_frequencies(shape.d_model, p.base, false), torch::kFloat64)),
        clamp_length_(p.clamp_length.value_or(std::numeric_limits<double>::infinity())),
        heads_(shape.heads),
        head_dim_(shape.head_dim) {
    projection_ = register_parameter("projection", torch::zeros({heads_ * head_dim_, shape.d_model}));
  }

  std::vector<Tensor> register_shared() override {
    return {register_parameter("content_bias", torch::zeros({heads_, head_dim_})),
            register_parameter("position_bias", torch::zeros({heads_, head_dim_}))};
  }

  Tensor score(const Tensor& s, const Content& c, const Frame& frame) const override {
    const Tensor &u = shared().at(0), &v = shared().at(1);                                       // [H, D]
    const Tensor content = torch::matmul(c.k, u.unsqueeze(2)).transpose(2, 3);                   // [B, H, 1, K]
    const Tensor q = c.q + v.unsqueeze(1);                                                       // [B, H, Q, D]
    const Tensor position = frame.queries.spacing > 0 ? by_step(q, frame) : by_angle(q, frame);  // [B, H, Q, K]
    return s + (content + position) / std::sqrt(static_cast<double>(head_dim_));
  }

  bool has_content_terms() const override { return true; }
  ContentTerms content_terms(const Content& c, const Frame& frame) const override {
    const Tensor &u = shared().at(0), &v = shared().at(1);  // [H, D]
    const double scale = 1 / std::sqrt(static_cast<double>(head_dim_));
    const Tensor distances = torch::arange(frame.key_count(), torch::kFloat64) * frame.queries.spacing;   // [K]
    const Tensor r = torch::matmul(sinusoids(distances).to(u.scalar_type()), weights().transpose(1, 2));  // [H, K, D]
    const Tensor of_keys = torch::matmul(c.k, u.unsqueeze(2)).squeeze(3);                                 // [B, H, K]
    return {.key_bias = scale * of_keys.to(torch::kFloat64),
            .distance_bias = scale * torch::matmul(r, v.unsqueeze(2)).squeeze(2),
            .key_vectors = r};
  }

  /// All weights N(0, 0.02), the authors' rule.
  void initialise(torch::Generator generator) override {
    const torch::NoGradGuard no_grad;
    projection_.normal_(0, 0.02, generator);
  }
  void initialise_shared(torch::Generator generator) override {
    const torch::NoGradGuard no_grad;
    for (Tensor bias : shared()) bias.normal_(0, 0.02, generator);
  }

 private:
  Tensor weights() const { return projection_.view({heads_, head_dim_, -1}); }  // [H, D, C]

  /// R of `distances` [n] float64, the sines before the cosines: [n, C] float64.
  Tensor sinusoids(const Tensor& distances) const {
    const Tensor angles = torch::outer(distances.clamp_max(clamp_length_), frequencies_);
    return torch::cat({angles.sin(), angles.cos()}, 1);
  }

  /// q·(W R_{i−j}) at evenly spaced positions: there are only as many distances as keys.
  Tensor by_step(const Tensor& q, const Frame& frame) const {
    const std::int64_t queries = frame.query_count(), keys = frame.key_count(), longest = frame.first_query + queries;
    const Tensor distances = torch::arange(longest, torch::kFloat64) * frame.queries.spacing;  // [n]
    const Tensor r = torch::matmul(weights(), sinusoids(distances).to(q.scalar_type()).t());   // [H, D, n]
    const Tensor query = torch::arange(frame.first_query, longest).unsqueeze(1), key = torch::arange(keys);
    return torch::matmul(q, r).gather(3, (query - key).clamp_min(0).expand({q.size(0), heads_, queries, keys}));
  }

  /// q·(W R_{i−j}) at any positions: with a = Wᵀq, Σ a_s sin(φ_i − ψ_j) + a_c cos(φ_i − ψ_j) is a product of a factor of i with
  /// one of j, so that no sinusoid of a pair is needed.
  Tensor by_angle(const Tensor& q, const Frame& frame) const {
    const Tensor a = torch::matmul(q, weights());  // [B, H, Q, C]
    const Tensor a_s = a.chunk(2, 3)[0], a_c = a.chunk(2, 3)[1];
    const Tensor phi = torch::outer(frame.queries.values, frequencies_), psi = torch::outer(frame.keys.values, frequencies_);
    const Tensor sin = phi.sin().to(q.scalar_type()), cos = phi.cos().to(q.scalar_type());  // [Q, C/2]
    const Tensor of_query = torch::cat({a_s * sin + a_c * cos, a_c * sin - a_s * cos}, 3);  // [B, H, Q, C]
    const Tensor of_key = torch::cat({psi.cos(), psi.sin()}, 1).to(q.scalar_type());        // [K, C]
    const Tensor z = torch::matmul(of_query, of_key.t());                                   // [B, H, Q, K]
    if (std::isinf(clamp_length_)) return z;
    const Tensor farthest = sinusoids(torch::full({1}, clamp_length_, torch::kFloat64)).to(q.scalar_type());  // [1, C]
    return torch::where(frame.distances() > clamp_length_, torch::matmul(a, farthest.t()), z);
  }

  Tensor projection_;   ///< W [H·D, C]
  Tensor frequencies_;  ///< [C/2] float64
  double clamp_length_;
  std::int64_t heads_, head_dim_;
};

}  // namespace

std::shared_ptr<Scheme> make_transformer_xl(const Json& parameters, const ModelShape& shape) {
  return std::make_shared<TransformerXl>(from_json<TransformerXlParameters>(parameters), shape);
}

#endif

}  // namespace posenc
