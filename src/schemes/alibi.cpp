// ALiBi: a linear penalty on distance, one slope per head. Press, Smith, Lewis 2022 (arXiv:2108.12409).
//   b(d) = −m_h·d, added after the 1/√D scale; m_h = 2^(−8h/H), h = 1 … H, for H a power of two.
// Two variants of other codes: slopes that learn (the paper found no gain), and some heads only, the rest without positions
// (x-transformers). A learned slope is kept as its logarithm, so that it stays positive.
#include <cmath>
#include <optional>

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
  bool learned = false;
  std::optional<std::int64_t> biased_heads;
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
          .above(0)
          .field("learned", &AlibiParameters::learned, "train the slopes (their logarithms), one set for all layers")
          .field("biased_heads", &AlibiParameters::biased_heads,
                 "only the first so many heads have slopes, those of a model of so many heads; the rest see no positions; "
                 "null: all")
          .at_least(1);
  return table;
}

#ifndef POSENC_TENSORS

namespace {

void check(const AlibiParameters& p, const ModelShape& shape, const Reader& reader) {
  if (p.biased_heads.value_or(1) > shape.heads) {
    reader.problem("biased_heads",
                   std::to_string(*p.biased_heads) + " is more than the " + std::to_string(shape.heads) + " heads");
  }
}

}  // namespace

SchemeInfo alibi_info() {
  SchemeInfo info;
  info.name = "alibi";
  info.aliases = {"linear_bias"};
  info.title = "attention with linear biases (ALiBi)";
  info.paper = "Press, Smith, Lewis 2022, arXiv:2108.12409";
  info.traits = {.relative = true, .real_positions = true, .hooks = "distance_bias"};
  info.scale = "after the 1/sqrt(head_dim) scale";
  return scheme_info<AlibiParameters>(std::move(info), check);
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
  Alibi(const AlibiParameters& p, const ModelShape& shape) : unbiased_heads_(shape.heads - p.biased_heads.value_or(shape.heads)) {
    const std::int64_t biased = shape.heads - unbiased_heads_;
    slopes_ = torch::tensor(alibi_slopes(biased, p.bias_max, p.slopes == "geometric"), torch::kFloat64);
    if (p.learned) log_slopes_ = register_parameter("log_slopes", torch::zeros({biased}));
  }

  Tensor distance_bias(const Tensor& distances) const override {
    const Tensor slopes = log_slopes_.defined() ? log_slopes_.to(torch::kFloat64).exp() : slopes_;  // [biased]
    return -torch::constant_pad_nd(slopes, {0, unbiased_heads_}).unsqueeze(1) * distances;          // [H, n]
  }

  void initialise(torch::Generator) override {
    torch::NoGradGuard no_grad;
    if (log_slopes_.defined()) log_slopes_.copy_(slopes_.log());
  }

 private:
  std::int64_t unbiased_heads_;
  Tensor slopes_;      ///< [biased] float64
  Tensor log_slopes_;  ///< [biased], when they are learned
};

}  // namespace

std::shared_ptr<Scheme> make_alibi(const Json& parameters, const ModelShape& shape) {
  return std::make_shared<Alibi>(from_json<AlibiParameters>(parameters), shape);
}

#endif

}  // namespace posenc
