// Forgetting Transformer: every token closes a gate a little on all before it. Lin et al. 2025 (arXiv:2503.02130).
//   b_ij = Σ_{t=j+1..i} ln f_t = C_i − C_j,  C the running sum of ln f,  f_t = σ(w_h·x_t + b_h),  x the attention's input
// Added after the 1/√D scale. Gates count tokens, not positions: all those between j and i, whether or not a window shows them.
// `fixed` gates hold ln f = −1/T_h with the T_h log-spaced, which is ALiBi with slope 1/T_h; their defaults are ALiBi's own slopes
// at 8 heads (the authors give none). Not here: the paper's "Pro" block (QK-norm, output gate, token shift).
#include "schemes/fox.h"

#include <cmath>

#include "schemes/info.h"
#include "schemes/rope.h"
#ifdef POSENC_TENSORS
#include "schemes/scheme.h"
#endif

namespace posenc {
namespace {

struct FoxParameters {
  std::string gate = "learned";
  double bias_init = 0;
  double time_min = 2, time_max = 256;
  bool rope = false;
  double base = 10000;
};

}  // namespace

template <>
const Schema<FoxParameters>& schema<FoxParameters>() {
  static const Schema<FoxParameters> table =
      Schema<FoxParameters>("fox")
          .field("gate", &FoxParameters::gate, "learned: from each token's content; fixed: one constant per head")
          .choices({"learned", "fixed"})
          .field("bias_init", &FoxParameters::bias_init,
                 "initial bias of learned gates: 0 forgets half per token, 5 (x-transformers) under 1%")
          .field("time_min", &FoxParameters::time_min, "fixed gates: tokens until the first head has forgotten a factor e")
          .above(0)
          .field("time_max", &FoxParameters::time_max, "the same of the last head; those between are log-spaced")
          .above(0)
          .field("rope", &FoxParameters::rope, "whether queries and keys are turned as in rope besides")
          .field("base", &FoxParameters::base, "base of the wavelengths with rope (the authors: 500000)")
          .above(1)
          .check([](const FoxParameters& p, const Reader& r) {
            if (p.time_max < p.time_min) r.problem("time_max", "must not be below time_min");
          });
  return table;
}

#ifndef POSENC_TENSORS

namespace {

void check(const FoxParameters& p, const ModelShape& shape, const Reader& reader) {
  const std::string problem = rotary_width_problem("fox with rope", shape.head_dim, shape.head_dim);
  if (p.rope && !problem.empty()) reader.at("rope").problem(problem);
}

}  // namespace

SchemeInfo fox_info() {
  SchemeInfo info;
  info.name = "fox";
  info.aliases = {"forgetting", "data_dependent_alibi"};
  info.title = "forget gates (Forgetting Transformer)";
  info.paper = "Lin et al. 2025, arXiv:2503.02130";
  info.traits = {.relative = true, .per_layer = true, .content_dependent = true, .hooks = "score"};
  return scheme_info<FoxParameters>(std::move(info), check);
}

std::vector<double> fox_decay_times(std::int64_t heads, double time_min, double time_max) {
  std::vector<double> times;
  for (std::int64_t h = 0; h < heads; ++h) {
    const double share = heads == 1 ? 0 : static_cast<double>(h) / static_cast<double>(heads - 1);
    times.push_back(time_min * std::pow(time_max / time_min, share));
  }
  return times;
}

#else

namespace {

class Fox : public Scheme {
 public:
  Fox(const FoxParameters& p, const ModelShape& shape) : bias_init_(p.bias_init), rope_(p.rope) {
    if (rope_) inv_freq_ = torch::tensor(rope_inv_freq(shape.head_dim, p.base), torch::kFloat64);
    if (p.gate == "fixed") {
      rates_ = torch::tensor(fox_decay_times(shape.heads, p.time_min, p.time_max), torch::kFloat64).reciprocal();
      return;
    }
    weight_ = register_parameter("weight", torch::zeros({shape.heads, shape.d_model}));
    bias_ = register_parameter("bias", torch::zeros({shape.heads}));
  }

  bool rotates() const override { return rope_; }

  Turn turn(Side side, const Frame& frame) const override {
    if (!rope_) return {};
    const Tensor angles = torch::outer(frame.of(side).values, inv_freq_);  // [n, D/2] float64
    return {angles.cos(), angles.sin()};
  }

  Tensor score(const Tensor& s, const Content& content, const Frame& frame) const override {
    const Tensor sums = gate_sums(content.x);                                                      // [B or 1, H, K]
    const Tensor own = sums.slice(2, frame.first_query, frame.first_query + frame.query_count());  // [B or 1, H, Q]
    return s + (own.unsqueeze(3) - sums.unsqueeze(2)).to(s.scalar_type());                         // [B, H, Q, K]
  }

  bool has_content_terms() const override { return true; }
  ContentTerms content_terms(const Content& content, const Frame&) const override { return {.decay = gate_sums(content.x)}; }

  /// The authors' rule: N(0, 0.02) and bias_init.
  void initialise(torch::Generator generator) override {
    if (rates_.defined()) return;
    const torch::NoGradGuard no_grad;
    weight_.normal_(0, 0.02, generator);
    bias_.fill_(bias_init_);
  }

 private:
  /// The running sums C of ln f for x [B, K, C], float64: their differences are small where they themselves are large.
  Tensor gate_sums(const Tensor& x) const {
    if (rates_.defined()) return -torch::outer(rates_, torch::arange(x.size(1), torch::kFloat64)).unsqueeze(0);  // [1, H, K]
    const Tensor log_forget = torch::log_sigmoid(torch::linear(x, weight_, bias_).to(torch::kFloat64));          // [B, K, H]
    return log_forget.cumsum(1).transpose(1, 2);
  }

  Tensor weight_, bias_;  ///< [H, C], [H] of learned gates
  Tensor rates_;          ///< [H] float64 of fixed ones: 1/T_h
  Tensor inv_freq_;       ///< [D/2] float64 with rope
  double bias_init_;
  bool rope_;
};

}  // namespace

std::shared_ptr<Scheme> make_fox(const Json& parameters, const ModelShape& shape) {
  return std::make_shared<Fox>(from_json<FoxParameters>(parameters), shape);
}

#endif

}  // namespace posenc
