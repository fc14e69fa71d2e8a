// A learned number per (distance, head), distances clipped: the plainest relative bias, b(d) = β_h[min(d, k)], added after the
// 1/√D scale. Shaw et al. 2018 (arXiv:1803.02155) clip so; the scalar form is that of Raffel et al. 2020 (arXiv:1910.10683) with a
// bucket per distance. β starts at 0, as no positions. Between whole distances b is linear, so that interpolated positions fit.
// Far keys share β_h[k], or are hidden: a window of k + 1 keys.
#include <algorithm>
#include <limits>
#include <optional>

#include "schemes/info.h"
#ifdef POSENC_TENSORS
#include "schemes/scheme.h"
#endif

namespace posenc {
namespace {

struct RelScalarParameters {
  std::optional<std::int64_t> max_distance;
  std::string far = "clamp";
  bool share_layers = false;
};

}  // namespace

template <>
const Schema<RelScalarParameters>& schema<RelScalarParameters>() {
  static const Schema<RelScalarParameters> table =
      Schema<RelScalarParameters>("rel_scalar")
          .field(
              "max_distance", &RelScalarParameters::max_distance,
              "the last distance with a value of its own; null: half of the training length. Near the training length the last "
              "values are hardly trained")
          .range(1, 1 << 20)
          .field("far", &RelScalarParameters::far, "keys beyond max_distance: clamp gives them its value, mask hides them")
          .choices({"clamp", "mask"})
          .field("share_layers", &RelScalarParameters::share_layers, "one table for all layers, or one for each");
  return table;
}

#ifndef POSENC_TENSORS

SchemeInfo rel_scalar_info() {
  SchemeInfo info;
  info.name = "rel_scalar";
  info.aliases = {"clipped_bias", "learned_bias"};
  info.title = "learned bias per clipped distance";
  info.paper = "Shaw et al. 2018, arXiv:1803.02155 (clipping); Raffel et al. 2020, arXiv:1910.10683 (scalars)";
  info.traits = {.relative = true, .real_positions = true, .per_layer = true, .hooks = "distance_bias"};
  info.scale = "after the 1/sqrt(head_dim) scale";
  return scheme_info<RelScalarParameters>(std::move(info));
}

#else

namespace {

/// A distance that is whole but for rounding is not beyond it.
constexpr double kRounding = 1e-6;

class RelScalar : public Scheme {
 public:
  RelScalar(const RelScalarParameters& p, const ModelShape& shape)
      : last_(p.max_distance.value_or(std::max<std::int64_t>(shape.train_length / 2, 1))), masks_(p.far == "mask") {
    table_ = register_parameter("table", torch::zeros({shape.heads, last_ + 1}));
  }

  Tensor distance_bias(const Tensor& distances) const override {
    const Tensor clipped = distances.clamp_max(static_cast<double>(last_));  // [n]
    const Tensor below = clipped.floor();
    const Tensor share = (clipped - below).to(table_.scalar_type());
    Tensor bias = at(below);  // [H, n]
    if (share.any().item<bool>()) bias = torch::lerp(bias, at(clipped.ceil()), share);
    if (!masks_) return bias;
    return bias.masked_fill(distances > static_cast<double>(last_) + kRounding, -std::numeric_limits<double>::infinity());
  }

  void initialise(torch::Generator) override {
    torch::NoGradGuard no_grad;
    table_.zero_();
  }

 private:
  /// β of whole distances [n] → [H, n].
  Tensor at(const Tensor& distances) const {
    return table_.gather(1, distances.to(torch::kInt64).expand({table_.size(0), distances.size(0)}));
  }

  std::int64_t last_;  ///< k
  bool masks_;
  Tensor table_;  ///< [H, k + 1]
};

}  // namespace

std::shared_ptr<Scheme> make_rel_scalar(const Json& parameters, const ModelShape& shape) {
  return std::make_shared<RelScalar>(from_json<RelScalarParameters>(parameters), shape);
}

#endif

}  // namespace posenc
