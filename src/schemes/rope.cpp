// Rotary position embedding: q and k are turned by angles proportional to their position, so that q·k depends on the distance
// alone. Su et al. 2021 (arXiv:2104.09864), eq. 34. Never applied to v.
//   x_a' = x_a·cos(pθ) − x_b·sin(pθ),  x_b' = x_a·sin(pθ) + x_b·cos(pθ),  θ_k = base^(−2k/R)
// `proportional` < 1 is p-RoPE, Barbero et al. 2024 (arXiv:2410.06205): the lowest frequencies become 0, those pairs see no
// position. Unlike `partial`, the exponents stay those of the whole width.
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
  double proportional = 1;
  std::string layout = "half_split";
  bool learned = false;
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
          .field("proportional", &RopeParameters::proportional,
                 "share of the frequencies that is kept, highest first (p-RoPE); the others become 0")
          .range(0, 1)
          .field("layout", &RopeParameters::layout,
                 "half_split pairs (k, k+R/2) as Llama and NeoX; interleaved pairs (2k, 2k+1) as GPT-J")
          .choices({"half_split", "interleaved"})
          .field("learned", &RopeParameters::learned, "whether the frequencies are trained; they start from the usual ones");
  return table;
}

#ifndef POSENC_TENSORS

namespace {

void check(const RopeParameters& p, const ModelShape& shape, const Reader& reader) {
  const std::string problem = rotary_width_problem("rope", shape.head_dim, rotary_width(p, shape));
  if (!problem.empty()) (p.partial == 1 ? reader : reader.at("partial")).problem(problem);
}

}  // namespace

SchemeInfo rope_info() {
  SchemeInfo info;
  info.name = "rope";
  info.aliases = {"rotary", "roformer"};
  info.title = "rotary position embedding (RoPE)";
  info.paper = "Su et al. 2021, arXiv:2104.09864";
  info.traits = {.relative = true, .real_positions = true, .rotary = true, .hooks = "rotate"};
  return scheme_info<RopeParameters>(std::move(info), check);
}

std::vector<double> rope_inv_freq(std::int64_t width, double base, double proportional) {
  const auto kept = static_cast<std::int64_t>(proportional * static_cast<double>(width) / 2);
  std::vector<double> inv_freq;
  for (std::int64_t k = 0; 2 * k < width; ++k) {
    const bool zero = proportional < 1 && k >= kept;
    inv_freq.push_back(zero ? 0 : std::pow(base, -2.0 * static_cast<double>(k) / static_cast<double>(width)));
  }
  return inv_freq;
}

std::string rotary_width_problem(const std::string& scheme, std::int64_t head_dim, std::int64_t width) {
  if (width >= 2 && width % 2 == 0) return "";
  return scheme + " turns pairs of dims and needs an even rotary width: head_dim " + std::to_string(head_dim) +
         (width == head_dim ? " is " : " x partial gives " + std::to_string(width) + ", which is ") +
         (width < 2 ? "too small" : "odd");
}

#else

namespace {

class Rope : public Scheme {
 public:
  Rope(const RopeParameters& p, const ModelShape& shape)
      : inv_freq_(torch::tensor(rope_inv_freq(rotary_width(p, shape), p.base, p.proportional), torch::kFloat64)),
        base_(p.base),
        interleaved_(p.layout == "interleaved") {
    if (p.learned) learned_ = register_parameter("frequencies", torch::zeros(inv_freq_.sizes()));
  }

  bool rotates() const override { return true; }

  Turn turn(Side side, const Frame& frame) const override {
    const Frequencies f = frame.rescaled({learned_.defined() ? learned_.to(torch::kFloat64) : inv_freq_, base_});
    const Tensor angles = f.angles(frame.of(side).values);  // [n, R/2] float64
    return {angles.cos() * f.magnitude, angles.sin() * f.magnitude, interleaved_};
  }

  void initialise(torch::Generator) override {
    const torch::NoGradGuard no_grad;
    if (learned_.defined()) learned_.copy_(inv_freq_);
  }

 private:
  Tensor inv_freq_;  ///< [R/2] float64
  Tensor learned_;   ///< [R/2], or undefined
  double base_;
  bool interleaved_;
};

}  // namespace

std::shared_ptr<Scheme> make_rope(const Json& parameters, const ModelShape& shape) {
  return std::make_shared<Rope>(from_json<RopeParameters>(parameters), shape);
}

#endif

}  // namespace posenc
