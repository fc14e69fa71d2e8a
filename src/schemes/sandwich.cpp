// Sandwich: the inner product of two sinusoidal encodings as a bias, a different scale per head. Chi et al. 2023
// (arXiv:2212.10356):
//   S(d) = Σ_k cos(d / base^(2k/d̄)), k = 1 … d̄/2;  b(d) = (S(d) − d̄/2) / (8h/H), h = 1 … H, added after the 1/√D scale.
// d̄ is a number of its own, not the head width (which NeMo takes). The constant d̄/2 makes b(0) = 0; softmax does not see it.
#include <cmath>

#include "schemes/info.h"
#ifdef POSENC_TENSORS
#include "schemes/scheme.h"
#endif

namespace posenc {
namespace {

struct SandwichParameters {
  std::int64_t d_bar = 128;
  std::int64_t index_base = 1;
  double base = 10000;
};

}  // namespace

template <>
const Schema<SandwichParameters>& schema<SandwichParameters>() {
  static const Schema<SandwichParameters> table =
      Schema<SandwichParameters>("sandwich")
          .field("d_bar", &SandwichParameters::d_bar, "width of the encodings whose inner product is the bias; even")
          .range(2, 1 << 16)
          .field("index_base", &SandwichParameters::index_base,
                 "the first k of the wavelengths base^(2k/d_bar): 1 (paper, NeMo) or 0 (attention-gym)")
          .range(0, 1)
          .field("base", &SandwichParameters::base, "base of the wavelengths")
          .above(1)
          .check([](const SandwichParameters& p, const Reader& r) {
            if (p.d_bar % 2 != 0) r.problem("d_bar", std::to_string(p.d_bar) + " is odd; sines and cosines come in pairs");
          });
  return table;
}

#ifndef POSENC_TENSORS

SchemeInfo sandwich_info() {
  SchemeInfo info;
  info.name = "sandwich";
  info.title = "Sandwich, an inner product of sinusoids as bias";
  info.paper = "Chi et al. 2023, arXiv:2212.10356";
  info.traits = {.relative = true, .real_positions = true, .hooks = "distance_bias"};
  info.scale = "after the 1/sqrt(head_dim) scale";
  return scheme_info<SandwichParameters>(std::move(info));
}

#else

namespace {

class Sandwich : public Scheme {
 public:
  Sandwich(const SandwichParameters& p, const ModelShape& shape)
      : divisors_(torch::arange(1, shape.heads + 1, torch::kFloat64).unsqueeze(1) * 8 / static_cast<double>(shape.heads)) {
    for (std::int64_t k = p.index_base; k < p.index_base + p.d_bar / 2; ++k)
      frequencies_.push_back(std::pow(p.base, -2 * static_cast<double>(k) / static_cast<double>(p.d_bar)));
  }

  Tensor distance_bias(const Tensor& distances) const override {
    Tensor sum = torch::full_like(distances, -static_cast<double>(frequencies_.size()));  // [n]
    for (const double frequency : frequencies_) sum += (distances * frequency).cos();     // one by one: [n, d̄/2] may be large
    return sum / divisors_;                                                               // [H, n]
  }

 private:
  Tensor divisors_;  ///< [H, 1] float64
  std::vector<double> frequencies_;
};

}  // namespace

std::shared_ptr<Scheme> make_sandwich(const Json& parameters, const ModelShape& shape) {
  return std::make_shared<Sandwich>(from_json<SandwichParameters>(parameters), shape);
}

#endif

}  // namespace posenc
