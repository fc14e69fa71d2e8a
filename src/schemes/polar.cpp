// PoPE, polar positions: content sets the length of a complex number per dim, position its angle, so that neither can pass for the
// other. Gopalakrishnan et al. 2025 (arXiv:2509.10534).
//   z_ij = Σ_c softplus(q_ic)·softplus(k_jc)·cos((i − j)·θ_c − δ_c)/√D,  θ_c = base^(−c/D), one frequency per dim
// δ is learned per key head and dim, held in [−2π, 0] and shared by all layers, as in x-transformers. Rotated queries and keys hold
// real and imaginary parts, 2·D numbers; √2 on the queries makes up for the 1/√(2D) they are then scaled by.
#include <cmath>

#include "schemes/info.h"
#ifdef POSENC_TENSORS
#include "schemes/scheme.h"
#endif

namespace posenc {
namespace {

struct PolarParameters {
  double base = 10000;
  std::string bias_init = "zero";
};

}  // namespace

template <>
const Schema<PolarParameters>& schema<PolarParameters>() {
  static const Schema<PolarParameters> table =
      Schema<PolarParameters>("polar")
          .field("base", &PolarParameters::base, "base of the wavelengths (theta)")
          .above(1)
          .field("bias_init", &PolarParameters::bias_init, "initial angle of the keys: zero, or uniform over the circle")
          .choices({"zero", "uniform"});
  return table;
}

#ifndef POSENC_TENSORS

SchemeInfo polar_info() {
  SchemeInfo info;
  info.name = "polar";
  info.aliases = {"pope"};
  info.title = "polar position embedding (PoPE)";
  info.paper = "Gopalakrishnan et al. 2025, arXiv:2509.10534";
  info.traits = {.relative = true, .real_positions = true, .hooks = "rotate"};
  return scheme_info<PolarParameters>(std::move(info));
}

#else

namespace {

constexpr double kCircle = 6.283185307179586;

class Polar : public Scheme {
 public:
  Polar(const PolarParameters& p, const ModelShape& shape) : uniform_(p.bias_init == "uniform") {
    const Tensor dims = torch::arange(shape.head_dim, torch::kFloat64) / static_cast<double>(shape.head_dim);
    frequencies_ = (-std::log(p.base) * dims).exp();
    bias_ = register_parameter("bias", torch::zeros({shape.kv_heads, shape.head_dim}));
  }

  bool rotates() const override { return true; }

  Tensor rotate(const Tensor& x, Side side, const Frame& frame) const override {
    const bool query = side == Side::kQuery;
    Tensor angles = torch::outer((query ? frame.queries : frame.keys).values, frequencies_);  // [n, D] float64
    if (!query) angles = angles + bias_.clamp(-kCircle, 0).to(torch::kFloat64).unsqueeze(1);  // [Hkv, n, D]
    const Tensor length = torch::softplus(x) * (query ? std::sqrt(2.0) : 1);                  // [B, H, n, D]
    return torch::cat({length * angles.cos().to(x.scalar_type()), length * angles.sin().to(x.scalar_type())}, -1);
  }

  void initialise(torch::Generator generator) override {
    const torch::NoGradGuard no_grad;
    if (uniform_) bias_.uniform_(-kCircle, 0, generator);
    else bias_.zero_();
  }

 private:
  Tensor frequencies_;  ///< [D] float64
  Tensor bias_;         ///< [Hkv, D]
  bool uniform_;
};

}  // namespace

std::shared_ptr<Scheme> make_polar(const Json& parameters, const ModelShape& shape) {
  return std::make_shared<Polar>(from_json<PolarParameters>(parameters), shape);
}

#endif

}  // namespace posenc
