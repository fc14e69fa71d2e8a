// T5's bucketed relative bias: one learned number per (bucket of distance, head). Raffel et al. 2020 (arXiv:1910.10683).
// Departure: T5 has no 1/√D; here the bias is added after the usual 1/√D scale, times `scale` (x-transformers: √D).
#include "schemes/t5.h"

#include <algorithm>
#include <cmath>

#include "schemes/info.h"
#ifdef POSENC_TENSORS
#include "schemes/scheme.h"
#endif

namespace posenc {
namespace {

struct T5Parameters {
  std::int64_t buckets = 32;
  std::int64_t max_distance = 128;
  bool share_layers = true;
  double scale = 1;
};

}  // namespace

template <>
const Schema<T5Parameters>& schema<T5Parameters>() {
  static const Schema<T5Parameters> table =
      Schema<T5Parameters>("t5")
          .field("buckets", &T5Parameters::buckets, "learned values per head")
          .range(2, 1 << 16)
          .field("max_distance", &T5Parameters::max_distance, "distances from here on share the last bucket")
          .range(2, 1 << 20)
          .field("share_layers", &T5Parameters::share_layers, "one table for all layers (as T5), or one for each")
          .field("scale", &T5Parameters::scale, "factor on the bias")
          .above(0)
          .check([](const T5Parameters& p, const Reader& r) {
            if (p.buckets % 2 != 0)
              r.problem("buckets", std::to_string(p.buckets) + " is odd; half of the buckets are exact distances");
            if (p.max_distance <= p.buckets / 2) {
              r.problem("max_distance",
                        std::to_string(p.max_distance) + " must exceed buckets/2 = " + std::to_string(p.buckets / 2));
            }
          });
  return table;
}

#ifndef POSENC_TENSORS

SchemeInfo t5_info() {
  SchemeInfo info;
  info.name = "t5";
  info.aliases = {"t5_bias", "rpe", "relative", "rel_pos_bias"};
  info.title = "T5 bucketed relative bias";
  info.paper = "Raffel et al. 2020, arXiv:1910.10683";
  info.traits = {.relative = true, .hooks = "distance_bias"};
  info.scale = "after the 1/sqrt(head_dim) scale";
  return scheme_info<T5Parameters>(std::move(info));
}

std::int64_t t5_bucket(std::int64_t relative, std::int64_t buckets, std::int64_t max_distance, bool bidirectional) {
  std::int64_t offset = 0;
  std::int64_t distance = -relative;
  if (bidirectional) {
    buckets /= 2;
    if (relative > 0) offset = buckets;
    distance = std::abs(distance);
  }
  distance = std::max<std::int64_t>(distance, 0);
  const std::int64_t exact = buckets / 2;
  if (distance < exact) return offset + distance;
  // The margin lifts quotients that are whole numbers in exact arithmetic but land an ulp below one.
  const long double position = std::log(static_cast<long double>(distance) / exact) /
                               std::log(static_cast<long double>(max_distance) / exact) *
                               static_cast<long double>(buckets - exact);
  return offset + std::min(buckets - 1, exact + static_cast<std::int64_t>(position + 1e-12L));
}

#else

namespace {

class T5 : public Scheme {
 public:
  T5(const T5Parameters& p, const ModelShape& shape)
      : scale_(p.scale), init_std_(std::pow(static_cast<double>(shape.d_model), -0.5)) {
    std::vector<std::int64_t> bucket_of;
    for (std::int64_t d = 0; d <= p.max_distance; ++d) bucket_of.push_back(t5_bucket(-d, p.buckets, p.max_distance, false));
    bucket_of_ = torch::tensor(bucket_of, torch::kInt64);
    table_ = register_parameter("table", torch::zeros({p.buckets, shape.heads}));
  }

  Tensor distance_bias(const Tensor& distances) const override {
    const Tensor whole = distances.to(torch::kInt64).clamp(0, bucket_of_.size(0) - 1);  // [n]
    return table_.index_select(0, bucket_of_.index_select(0, whole)).t() * scale_;      // [H, n]
  }

  /// HF's rule for T5: N(0, d_model^-1/2).
  void initialise(torch::Generator generator) override {
    torch::NoGradGuard no_grad;
    table_.normal_(0, init_std_, generator);
  }

 private:
  Tensor table_;      ///< [buckets, H]
  Tensor bucket_of_;  ///< [max_distance + 1] int64; the last entry stands for every larger distance
  double scale_, init_std_;
};

}  // namespace

std::shared_ptr<Scheme> make_t5(const Json& parameters, const ModelShape& shape) {
  return std::make_shared<T5>(from_json<T5Parameters>(parameters), shape);
}

#endif

}  // namespace posenc
