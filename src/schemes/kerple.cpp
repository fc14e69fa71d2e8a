// KERPLE: kernels of the distance with two learned numbers per head. Chi et al. 2022 (arXiv:2205.09921):
//   kerple_log           b(d) = −r1·ln(1 + r2·d)
//   kerple_power         b(d) = −r1·d^r2, r2 ≤ 2; r2 = 1 is ALiBi with learned slopes
//   kerple_power_weight  s·exp(−w1·d^w2) + b(d) with b of kerple_power: the authors' "weight" kernel multiplies q·k as well
// b is added after the 1/√D scale. As in the authors' code all layers share one set, and numbers below 0.01 (exponents also above
// 2) count as that. They write the clamped number back into the parameter; here the parameter stays what the optimiser makes it,
// and has no gradient while it is outside.
#include "schemes/alibi.h"
#include "schemes/info.h"
#ifdef POSENC_TENSORS
#include "schemes/diagonals.h"
#endif

namespace posenc {
namespace {

struct KerpleParameters {
  std::string init = "paper";
  bool share_layers = true;
};

}  // namespace

template <>
const Schema<KerpleParameters>& schema<KerpleParameters>() {
  static const Schema<KerpleParameters> table =
      Schema<KerpleParameters>("kerple")
          .field("init", &KerpleParameters::init,
                 "paper: uniform between 0 and 1, or 2 for r1 of the log kernel and for exponents; alibi: r1 starts from ALiBi's "
                 "slopes (at least 0.01), r2 from 1 (NeMo), and a weight kernel from w1 = 0.01, w2 = 1")
          .choices({"paper", "alibi"})
          .field("share_layers", &KerpleParameters::share_layers,
                 "one set of numbers for all layers (as the authors), or one for each");
  return table;
}

#ifndef POSENC_TENSORS

namespace {

SchemeInfo kerple_info(const std::string& name, std::vector<std::string> aliases, const std::string& title) {
  SchemeInfo info;
  info.name = name;
  info.aliases = std::move(aliases);
  info.title = title;
  info.paper = "Chi et al. 2022, arXiv:2205.09921";
  info.traits = {.relative = true, .real_positions = true, .hooks = "distance_bias"};
  info.scale = "after the 1/sqrt(head_dim) scale";
  return scheme_info<KerpleParameters>(std::move(info));
}

}  // namespace

SchemeInfo kerple_log_info() { return kerple_info("kerple_log", {"kerple"}, "logarithmic kernel bias (KERPLE)"); }
SchemeInfo kerple_power_info() { return kerple_info("kerple_power", {}, "power kernel bias (KERPLE)"); }
SchemeInfo kerple_power_weight_info() {
  SchemeInfo info = kerple_info("kerple_power_weight", {}, "power kernel bias and weight (KERPLE)");
  info.traits.content_dependent = true;
  info.traits.hooks = "score";
  info.scale = "";
  return info;
}

#else

namespace {

constexpr double kLeast = 0.01, kLargestExponent = 2;

/// The authors clamp their parameters in place before every use; here after every step, so that a head that reached the limit
/// can come back. `at_least` and power_kernel clamp once more what came from elsewhere.
void clamp_in_place(const Tensor& parameter, double most = std::numeric_limits<double>::infinity()) {
  const torch::NoGradGuard no_grad;
  parameter.clamp_(kLeast, most);
}

/// Clamped in the parameter's own precision, so that one written back as 0.01 is not below it and keeps its gradient.
Tensor at_least(const Tensor& parameter) { return parameter.clamp_min(kLeast).to(torch::kFloat64); }

/// r·d^p of distances [n], for each head → [H, n]. 0^p is 0, also in the gradients.
Tensor power_kernel(const Tensor& r, const Tensor& p, const Tensor& distances) {
  const Tensor apart = distances > 0;
  const Tensor logarithm = torch::where(apart, distances, 1.0).log();
  return at_least(r).unsqueeze(1) * (at_least(p).clamp_max(kLargestExponent).unsqueeze(1) * logarithm).exp() * apart;
}

class Kerple : public Scheme {
 public:
  Kerple(const KerpleParameters& p, const ModelShape& shape) : from_alibi_(p.init == "alibi") {
    r1_ = register_parameter("r1", torch::zeros({shape.heads}));
    r2_ = register_parameter("r2", torch::zeros({shape.heads}));
  }

 protected:
  /// Uniform up to these limits and within the clamp, or ALiBi's start.
  void initialise_kernel(torch::Generator generator, double r1_limit, double r2_limit) {
    torch::NoGradGuard no_grad;
    if (from_alibi_) {
      r1_.copy_(torch::tensor(alibi_slopes(r1_.size(0)), torch::kFloat64)).clamp_min_(kLeast);
      r2_.fill_(1);
    } else {
      r1_.uniform_(0, r1_limit, generator).clamp_min_(kLeast);
      r2_.uniform_(0, r2_limit, generator).clamp_min_(kLeast);
    }
  }

  bool from_alibi_;
  Tensor r1_, r2_;  ///< [H]
};

class KerpleLog : public Kerple {
 public:
  using Kerple::Kerple;

  void constrain() const override {
    clamp_in_place(r1_);
    clamp_in_place(r2_);
  }

  Tensor distance_bias(const Tensor& distances) const override {
    return -at_least(r1_).unsqueeze(1) * (at_least(r2_).unsqueeze(1) * distances).log1p();  // [H, n]
  }

  void initialise(torch::Generator generator) override { initialise_kernel(generator, 2, 1); }
};

class KerplePower : public Kerple {
 public:
  using Kerple::Kerple;

  void constrain() const override {
    clamp_in_place(r1_);
    clamp_in_place(r2_, kLargestExponent);
  }

  Tensor distance_bias(const Tensor& distances) const override { return -power_kernel(r1_, r2_, distances); }  // [H, n]

  void initialise(torch::Generator generator) override { initialise_kernel(generator, 1, 2); }
};

/// Has no bias of its own: what reaches score would be q·k and bias in one, and only q·k is weighted.
class KerplePowerWeight : public Kerple {
 public:
  KerplePowerWeight(const KerpleParameters& p, const ModelShape& shape) : Kerple(p, shape) {
    w1_ = register_parameter("w1", torch::zeros({shape.heads}));
    w2_ = register_parameter("w2", torch::zeros({shape.heads}));
  }

  void constrain() const override {
    for (const Tensor& factor : {r1_, w1_}) clamp_in_place(factor);
    for (const Tensor& exponent : {r2_, w2_}) clamp_in_place(exponent, kLargestExponent);
  }

  Tensor score(const Tensor& s, const Content&, const Frame& frame) const override {
    const bool even = frame.queries.spacing > 0;  // then Q + K − 1 distances stand for all Q·K
    const Tensor distances = even ? diagonal_steps(frame).clamp_min(0) * frame.queries.spacing : frame.distances().flatten();
    const auto of_pairs = [&](const Tensor& kernel) {  // [H, n] → [H, Q, K]
      const Tensor cast = kernel.to(s.scalar_type());
      return even ? from_diagonals(cast, frame) : cast.unflatten(1, {frame.query_count(), frame.key_count()});
    };
    return torch::addcmul(of_pairs(-power_kernel(r1_, r2_, distances)), s, of_pairs((-power_kernel(w1_, w2_, distances)).exp()));
  }

  void initialise(torch::Generator generator) override {
    initialise_kernel(generator, 1, 2);
    torch::NoGradGuard no_grad;
    if (from_alibi_) {
      w1_.fill_(kLeast);
      w2_.fill_(1);
    } else {
      w1_.uniform_(0, 1, generator).clamp_min_(kLeast);
      w2_.uniform_(0, 2, generator).clamp_min_(kLeast);
    }
  }

 private:
  Tensor w1_, w2_;  ///< [H]
};

}  // namespace

std::shared_ptr<Scheme> make_kerple_log(const Json& parameters, const ModelShape& shape) {
  return std::make_shared<KerpleLog>(from_json<KerpleParameters>(parameters), shape);
}
std::shared_ptr<Scheme> make_kerple_power(const Json& parameters, const ModelShape& shape) {
  return std::make_shared<KerplePower>(from_json<KerpleParameters>(parameters), shape);
}
std::shared_ptr<Scheme> make_kerple_power_weight(const Json& parameters, const ModelShape& shape) {
  return std::make_shared<KerplePowerWeight>(from_json<KerpleParameters>(parameters), shape);
}

#endif

}  // namespace posenc
