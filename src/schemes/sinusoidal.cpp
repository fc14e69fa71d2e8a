// Sinusoidal absolute positions. Vaswani et al. 2017 (arXiv:1706.03762), §3.5:
//   PE[p, 2k] = sin(p·base^(−2k/d)), PE[p, 2k+1] = cos(p·base^(−2k/d)); x = E[token]·√d + PE[p].
#include "schemes/sinusoidal.h"

#include <cmath>

#include "schemes/absolute.h"

namespace posenc {
namespace {

struct SinusoidalParameters : FusionParameters {
  double base = 10000;
  std::string layout = "interleaved";
  std::string frequencies = "paper";
  bool token_scale = true;
};

}  // namespace

template <>
const Schema<SinusoidalParameters>& schema<SinusoidalParameters>() {
  static const Schema<SinusoidalParameters> table = with_fusion(
      Schema<SinusoidalParameters>("sinusoidal")
          .field("base", &SinusoidalParameters::base, "base of the wavelengths")
          .above(1)
          .field("layout", &SinusoidalParameters::layout,
                 "interleaved: sin, cos, sin, cos …; concat: all sines, then all cosines")
          .choices({"interleaved", "concat"})
          .field("frequencies", &SinusoidalParameters::frequencies, "exponent 2k/d (paper) or k/(d/2-1) (tensor2tensor, fairseq)")
          .choices({"paper", "tensor2tensor"})
          .field("token_scale", &SinusoidalParameters::token_scale,
                 "multiply token embeddings by sqrt(d_model), as the paper does"));
  return table;
}

#ifndef POSENC_TENSORS

namespace {

void check(const SinusoidalParameters& p, const ModelShape& shape, const Reader& reader) {
  check_fusion(p, shape, reader);
  const std::int64_t width = p.width(shape.d_model);
  if (p.frequencies == "tensor2tensor" && (width < 4 || width % 2 != 0)) {
    reader.problem("frequencies",
                   "tensor2tensor needs an even width of at least 4, not " + std::to_string(width) + " (use paper)");
  }
}

}  // namespace

SchemeInfo sinusoidal_info() {
  SchemeInfo info;
  info.name = "sinusoidal";
  info.aliases = {"sin", "sincos", "sin_cos", "ape", "abs_sin", "fixed"};
  info.title = "sinusoidal absolute positions";
  info.paper = "Vaswani et al. 2017, arXiv:1706.03762";
  info.traits = {.real_positions = true, .hooks = "embed"};
  return scheme_info<SinusoidalParameters>(std::move(info), check);
}

std::vector<double> sinusoidal_frequencies(std::int64_t d_model, double base, bool tensor2tensor) {
  std::vector<double> frequencies;
  for (std::int64_t k = 0; k < (d_model + 1) / 2; ++k) {
    const double exponent = tensor2tensor ? static_cast<double>(k) / static_cast<double>(d_model / 2 - 1)
                                          : 2 * static_cast<double>(k) / static_cast<double>(d_model);
    frequencies.push_back(std::pow(base, -exponent));
  }
  return frequencies;
}

#else

namespace {

class Sinusoidal : public AbsoluteScheme {
 public:
  Sinusoidal(const SinusoidalParameters& p, const ModelShape& shape)
      : AbsoluteScheme(p, shape.d_model),
        frequencies_(torch::tensor(sinusoidal_frequencies(width(), p.base, p.frequencies == "tensor2tensor"), torch::kFloat64)),
        interleaved_(p.layout == "interleaved"),
        token_scale_(p.token_scale ? std::sqrt(static_cast<double>(shape.d_model)) : 1) {}

  Tensor embed(const Tensor& x, const Frame& frame) const override { return AbsoluteScheme::embed(x * token_scale_, frame); }

 protected:
  Tensor vectors(const Frame& frame, torch::ScalarType dtype) const override {
    const Tensor angles = torch::outer(frame.queries.values, frequencies_);  // [Q, ⌈C/2⌉]
    const Tensor sines = angles.sin();
    const Tensor cosines = angles.cos().slice(1, 0, width() / 2);              // an odd width leaves a spare sine
    Tensor table = torch::empty({angles.size(0), width()}, angles.options());  // [Q, C]
    if (interleaved_) {
      table.slice(1, 0, width(), 2).copy_(sines);
      table.slice(1, 1, width(), 2).copy_(cosines);
    } else {
      table.slice(1, 0, sines.size(1)).copy_(sines);
      table.slice(1, sines.size(1), width()).copy_(cosines);
    }
    return table.to(dtype);
  }

 private:
  Tensor frequencies_;  ///< [⌈C/2⌉] float64
  bool interleaved_;
  double token_scale_;
};

}  // namespace

std::shared_ptr<Scheme> make_sinusoidal(const Json& parameters, const ModelShape& shape) {
  return std::make_shared<Sinusoidal>(from_json<SinusoidalParameters>(parameters), shape);
}

#endif

}  // namespace posenc
