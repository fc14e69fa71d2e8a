// Contextual position encoding: position is how many of the keys up to the query a gate counts. Golovneva et al. 2024
// (arXiv:2405.18719):
//   g_ij = σ(q_i·k_j/√D),   p_ij = min(Σ_{t=j…i} g_it, max_positions − 1),   z_ij = q_i·e[p_ij], linear between whole positions
//   divided  s_ij = (q_i·k_j + z_ij)/√D   the authors' code (facebookresearch/RAM)
//   paper    s_ij = q_i·k_j/√D + z_ij     the paper's listing; --cope-nodiv there
// Gates of keys a query may not see are 0: they are no part of the sum.
#include <cmath>

#include "schemes/info.h"
#ifdef POSENC_TENSORS
#include "schemes/scheme.h"
#endif

namespace posenc {
namespace {

struct CopeParameters {
  std::int64_t max_positions = 64;
  std::string form = "divided";
  bool share_layers = false;
};

}  // namespace

template <>
const Schema<CopeParameters>& schema<CopeParameters>() {
  static const Schema<CopeParameters> table =
      Schema<CopeParameters>("cope")
          .field("max_positions", &CopeParameters::max_positions,
                 "rows of the table; larger counts share the last (paper: 64; the authors' code: training length + 1)")
          .range(2, 1 << 20)
          .field("form", &CopeParameters::form,
                 "divided: (q·k + q·e[p])/sqrt(head_dim), the authors' code; paper: q·k/sqrt(head_dim) + q·e[p]")
          .choices({"divided", "paper"})
          .field("share_layers", &CopeParameters::share_layers, "one table for all layers, or one for each");
  return table;
}

#ifndef POSENC_TENSORS

SchemeInfo cope_info() {
  SchemeInfo info;
  info.name = "cope";
  info.aliases = {"contextual"};
  info.title = "contextual position encoding (CoPE)";
  info.paper = "Golovneva et al. 2024, arXiv:2405.18719";
  info.traits = {.relative = true, .per_layer = true, .content_dependent = true, .hooks = "score"};
  return scheme_info<CopeParameters>(std::move(info));
}

#else

namespace {

class Cope : public Scheme {
 public:
  Cope(const CopeParameters& p, const ModelShape& shape)
      : scale_(p.form == "divided" ? 1 / std::sqrt(static_cast<double>(shape.head_dim)) : 1) {
    table_ = register_parameter("table", torch::zeros({p.max_positions, shape.head_dim}));
  }

  Tensor score(const Tensor& s, const Content& c, const Frame& frame) const override {
    const double last = static_cast<double>(table_.size(0) - 1);
    const auto wide = torch::promote_types(s.scalar_type(), torch::kFloat32);        // a count has no more digits than its type
    const Tensor gates = torch::sigmoid(s).masked_fill(frame.unseen(), 0).to(wide);  // [B, H, Q, K]
    const Tensor position = gates.flip(3).cumsum(3).flip(3).clamp_max(last);         // from the newest key back
    const Tensor below = position.detach().floor();
    const Tensor row = below.to(torch::kInt64);
    const Tensor z = torch::matmul(c.q, table_.t());  // [B, H, Q, max_positions]
    const Tensor lower = z.gather(3, row), upper = z.gather(3, (row + 1).clamp_max(table_.size(0) - 1));
    return s + torch::lerp(lower, upper, (position - below).to(s.scalar_type())) * scale_;
  }

  /// The table starts at zero, as the authors'.
  void initialise(torch::Generator) override { table_.data().zero_(); }

 private:
  Tensor table_;  ///< e [max_positions, D]
  double scale_;
};

}  // namespace

std::shared_ptr<Scheme> make_cope(const Json& parameters, const ModelShape& shape) {
  return std::make_shared<Cope>(from_json<CopeParameters>(parameters), shape);
}

#endif

}  // namespace posenc
