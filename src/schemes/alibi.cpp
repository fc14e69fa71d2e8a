// ALiBi: a linear penalty on distance, one slope per head. Press, Smith, Lewis 2022 (arXiv:2108.12409).
//   b(d) = −m_h·d, added after the 1/√D scale; m_h = 2^(−8h/H), h = 1 … H, for H a power of two.
#include <cmath>

#include "schemes/alibi.h"
#include "schemes/info.h"
#ifdef POSENC_TENSORS
#include "schemes/scheme.h"
#endif

namespace posenc {
namespace {

struct AlibiParameters {
  std::string slopes = "paper";
  double bias_max = 8;
};

}  // namespace

template <>
const Schema<AlibiParameters>& schema<AlibiParameters>() {
  static const Schema<AlibiParameters> table =
      Schema<AlibiParameters>("alibi")
          .field("slopes", &AlibiParameters::slopes,
                 "paper: geometric for a power of two, else the nearest lower power's slopes and every second one of the next; "
                 "geometric: 2^(-bias_max*h/heads) for any head count")
          .choices({"paper", "geometric"})
          .field("bias_max", &AlibiParameters::bias_max, "exponent of the last head's slope, 2^-bias_max")
          .above(0);
  return table;
}

#ifndef POSENC_TENSORS

SchemeInfo alibi_info() {
  SchemeInfo info;
  info.name = "alibi";
  info.aliases = {"linear_bias"};
  info.title = "attention with linear biases (ALiBi)";
  info.paper = "Press, Smith, Lewis 2022, arXiv:2108.12409";
  info.traits = {.relative = true, .real_positions = true, .hooks = "distance_bias"};
  info.scale = "after the 1/sqrt(head_dim) scale";
  return scheme_info<AlibiParameters>(std::move(info));
}

std::vector<double> alibi_slopes(std::int64_t heads, double bias_max, bool geometric) {
  const auto geometric_slopes = [bias_max](std::int64_t n) {
    std::vector<double> slopes;
    for (std::int64_t h = 1; h <= n; ++h)
      slopes.push_back(std::exp2(-bias_max * static_cast<double>(h) / static_cast<double>(n)));
    return slopes;
  };
  std::int64_t power = 1;
  while (power * 2 <= heads) power *= 2;
  if (geometric || power == heads) return geometric_slopes(heads);
  std::vector<double> slopes = geometric_slopes(power);  // head order matters: not sorted
  const std::vector<double> doubled = geometric_slopes(2 * power);
  for (std::int64_t i = 0; power + i < heads; ++i) slopes.push_back(doubled[static_cast<std::size_t>(2 * i)]);
  return slopes;
}

#else

namespace {

class Alibi : public Scheme {
 public:
  Alibi(const AlibiParameters& p, const ModelShape& shape)
      : slopes_(torch::tensor(alibi_slopes(shape.heads, p.bias_max, p.slopes == "geometric"), torch::kFloat64).unsqueeze(1)) {}

  Tensor distance_bias(const Tensor& distances) const override { return -slopes_ * distances; }  // [H, n]

 private:
  Tensor slopes_;  ///< [H, 1] float64
};

}  // namespace

std::shared_ptr<Scheme> make_alibi(const Json& parameters, const ModelShape& shape) {
  return std::make_shared<Alibi>(from_json<AlibiParameters>(parameters), shape);
}

#endif

}  // namespace posenc
