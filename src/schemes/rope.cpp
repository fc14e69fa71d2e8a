// Rotary position embedding: q and k are turned by angles proportional to their position, so that q·k depends on the distance
// alone. Su et al. 2021 (arXiv:2104.09864), eq. 34. Never applied to v.
//   x_a' = x_a·cos(pθ) − x_b·sin(pθ),  x_b' = x_a·sin(pθ) + x_b·cos(pθ),  θ_k = base^(−2k/R)
#include "schemes/rope.h"

#include <cmath>

#include "schemes/info.h"
#ifdef POSENC_TENSORS
#include "schemes/scheme.h"
#endif

namespace posenc {
namespace {

struct RopeParameters {
  double base = 10000;
  double partial = 1;
  std::string layout = "half_split";
};

/// The dims that are turned: the first `partial` share of a head, as GPT-NeoX, GPT-J and Hugging Face cut it.
std::int64_t rotary_width(const RopeParameters& p, const ModelShape& shape) {
  return static_cast<std::int64_t>(static_cast<double>(shape.head_dim) * p.partial);
}

}  // namespace

template <>
const Schema<RopeParameters>& schema<RopeParameters>() {
  static const Schema<RopeParameters> table =
      Schema<RopeParameters>("rope")
          .field("base", &RopeParameters::base, "base of the wavelengths (theta)")
          .above(1)
          .field("partial", &RopeParameters::partial, "share of each head's dims that is turned")
          .above(0)
          .at_most(1)
          .field("layout", &RopeParameters::layout,
                 "half_split pairs (k, k+R/2) as Llama and NeoX; interleaved pairs (2k, 2k+1) as GPT-J")
          .choices({"half_split", "interleaved"});
  return table;
}

#ifndef POSENC_TENSORS

namespace {

void check(const RopeParameters& p, const ModelShape& shape, const Reader& reader) {
  const std::int64_t width = rotary_width(p, shape);
  if (width >= 2 && width % 2 == 0) return;
  const Reader place = p.partial == 1 ? reader : reader.at("partial");
  place.problem("rope turns pairs of dims and needs an even rotary width: head_dim " + std::to_string(shape.head_dim) +
                (p.partial == 1 ? " is " : " x partial gives " + std::to_string(width) + ", which is ") +
                (width < 2 ? "too small" : "odd"));
}

}  // namespace

SchemeInfo rope_info() {
  SchemeInfo info;
  info.name = "rope";
  info.aliases = {"rotary", "roformer"};
  info.title = "rotary position embedding (RoPE)";
  info.paper = "Su et al. 2021, arXiv:2104.09864";
  info.traits = {.relative = true, .real_positions = true, .hooks = "rotate"};
  return scheme_info<RopeParameters>(std::move(info), check);
}

std::vector<double> rope_inv_freq(std::int64_t width, double base) {
  std::vector<double> inv_freq;
  for (std::int64_t k = 0; 2 * k < width; ++k)
    inv_freq.push_back(std::pow(base, -2.0 * static_cast<double>(k) / static_cast<double>(width)));
  return inv_freq;
}

#else

namespace {

/// The two members of every pair among the first `width` dims of x, as views.
std::pair<Tensor, Tensor> pairs(const Tensor& x, std::int64_t width, bool interleaved) {
  if (interleaved) return {x.slice(-1, 0, width, 2), x.slice(-1, 1, width, 2)};
  return {x.slice(-1, 0, width / 2), x.slice(-1, width / 2, width)};
}

Tensor turn(const Tensor& x, const Tensor& cos, const Tensor& sin, bool interleaved) {
  const std::int64_t width = 2 * cos.size(-1);
  Tensor out = torch::empty(x.sizes(), x.options());
  const auto [a, b] = pairs(x, width, interleaved);
  auto [out_a, out_b] = pairs(out, width, interleaved);
  torch::mul_out(out_a, a, cos).addcmul_(b, sin, -1);
  torch::mul_out(out_b, a, sin).addcmul_(b, cos);
  if (width < x.size(-1)) out.slice(-1, width).copy_(x.slice(-1, width));
  return out;
}

/// A rotation's gradient is the rotation back: one node in the graph instead of six.
class Turn : public torch::autograd::Function<Turn> {
 public:
  static Tensor forward(torch::autograd::AutogradContext* ctx, const Tensor& x, const Tensor& cos, const Tensor& sin,
                        bool interleaved) {
    ctx->save_for_backward({cos, sin});
    ctx->saved_data["interleaved"] = interleaved;
    return turn(x, cos, sin, interleaved);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx, torch::autograd::variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    return {turn(grads[0], saved[0], -saved[1], ctx->saved_data["interleaved"].toBool()), {}, {}, {}};
  }
};

class Rope : public Scheme {
 public:
  Rope(const RopeParameters& p, const ModelShape& shape)
      : inv_freq_(torch::tensor(rope_inv_freq(rotary_width(p, shape), p.base), torch::kFloat64)),
        interleaved_(p.layout == "interleaved") {}

  bool rotates() const override { return true; }

  Tensor rotate(const Tensor& x, const Positions& positions) const override {
    const Tensor angles = torch::outer(positions.values, inv_freq_);  // [n, R/2] float64
    return Turn::apply(x, angles.cos().to(x.scalar_type()), angles.sin().to(x.scalar_type()), interleaved_);
  }

 private:
  Tensor inv_freq_;  ///< [R/2] float64
  bool interleaved_;
};

}  // namespace

std::shared_ptr<Scheme> make_rope(const Json& parameters, const ModelShape& shape) {
  return std::make_shared<Rope>(from_json<RopeParameters>(parameters), shape);
}

#endif

}  // namespace posenc
