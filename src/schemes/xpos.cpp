// xPos: rotary positions whose scores decay with distance, each pair of dims at its own rate. Sun et al. 2022 (arXiv:2212.10554).
//   q scaled by ζ_k^((p−c)/S), k by ζ_k^(−(p−c)/S), both turned as in rope;  ζ_k = (2k/R + γ)/(1 + γ),  so that q·k ∝ ζ_k^((i−j)/S)
// The centre c is the position of the middle key and cancels in q·k. torchscale takes ⌈n/2⌉, x-transformers ⌊n/2⌋ of n positions,
// as here. Block-wise attention, which the paper adds at inference, is an axis of its own.
// The factors must fit float32, also where a query meets a later key before the mask: ln of each is kept within ±kLargestLog.
// Scores are exact while no position is further than kLargestLog·S/ln((1+γ)/γ) from the centre (28.7·S by default, 29426
// positions in all); beyond, the fastest pairs decay too slowly. Training there is refused.
#include <cmath>

#include "schemes/info.h"
#include "schemes/rope.h"
#ifdef POSENC_TENSORS
#include "schemes/scheme.h"
#endif

namespace posenc {
namespace {

struct XposParameters {
  double base = 10000;
  double scale_base = 512;
  double gamma = 0.4;
  std::string layout = "interleaved";
};

constexpr double kLargestLog = 36;  // e^36 = 4e15; two of them times q·k stay below 3e38

}  // namespace

template <>
const Schema<XposParameters>& schema<XposParameters>() {
  static const Schema<XposParameters> table =
      Schema<XposParameters>("xpos")
          .field("base", &XposParameters::base, "base of the wavelengths (theta)")
          .above(1)
          .field("scale_base", &XposParameters::scale_base, "distance over which a pair decays by its factor zeta")
          .above(0)
          .field("gamma", &XposParameters::gamma, "zeta = (2k/head_dim + gamma)/(1 + gamma); larger decays less")
          .above(0)
          .field("layout", &XposParameters::layout,
                 "interleaved pairs (2k, 2k+1) as torchscale; half_split pairs (k, k+head_dim/2)")
          .choices({"interleaved", "half_split"});
  return table;
}

#ifndef POSENC_TENSORS

namespace {

void check(const XposParameters& p, const ModelShape& shape, const Reader& reader) {
  const std::string problem = rotary_width_problem("xpos", shape.head_dim, shape.head_dim);
  if (!problem.empty()) reader.problem(problem);
  const double reach = 2 * kLargestLog * p.scale_base / std::log((1 + p.gamma) / p.gamma);
  if (static_cast<double>(shape.positions) > reach) {
    reader.problem("scale_base", std::to_string(shape.positions) + " positions leave the range of float32, which holds " +
                                     std::to_string(static_cast<std::int64_t>(reach)) + " at this scale_base and gamma");
  }
}

}  // namespace

SchemeInfo xpos_info() {
  SchemeInfo info;
  info.name = "xpos";
  info.aliases = {"lex", "rotary_xpos"};
  info.title = "extrapolatable rotary positions (xPos)";
  info.paper = "Sun et al. 2022, arXiv:2212.10554";
  info.traits = {.relative = true, .real_positions = true, .rotary = true, .hooks = "rotate"};
  return scheme_info<XposParameters>(std::move(info), check);
}

#else

namespace {

class Xpos : public Scheme {
 public:
  Xpos(const XposParameters& p, const ModelShape& shape)
      : inv_freq_(torch::tensor(rope_inv_freq(shape.head_dim, p.base), torch::kFloat64)),
        base_(p.base),
        scale_base_(p.scale_base),
        interleaved_(p.layout == "interleaved") {
    const Tensor k = torch::arange(0, shape.head_dim, 2, torch::kFloat64);
    log_zeta_ = ((k / static_cast<double>(shape.head_dim) + p.gamma) / (1 + p.gamma)).log();
  }

  bool rotates() const override { return true; }

  Turn turn(Side side, const Frame& frame) const override {
    const Frequencies f = frame.rescaled({inv_freq_, base_});
    const Tensor& positions = frame.of(side).values;                                            // [n]
    const Tensor angles = f.angles(positions);                                                  // [n, D/2] float64
    const Tensor steps = (positions - frame.keys.values[frame.key_count() / 2]) / scale_base_;  // [n]
    const Tensor log_scale = torch::outer(steps, log_zeta_).clamp(-kLargestLog, kLargestLog);   // [n, D/2]
    const Tensor scale = (side == Side::kQuery ? log_scale : -log_scale).exp() * f.magnitude;
    return {angles.cos() * scale, angles.sin() * scale, interleaved_};
  }

 private:
  Tensor inv_freq_, log_zeta_;  ///< [D/2] float64
  double base_, scale_base_;
  bool interleaved_;
};

}  // namespace

std::shared_ptr<Scheme> make_xpos(const Json& parameters, const ModelShape& shape) {
  return std::make_shared<Xpos>(from_json<XposParameters>(parameters), shape);
}

#endif

}  // namespace posenc
