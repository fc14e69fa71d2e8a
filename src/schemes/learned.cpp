// Learned absolute positions: x = E[token] + P[position]. Gehring et al. 2017 (arXiv:1705.03122); GPT-2's wpe. Undefined beyond
// its table, which is refused, never clamped. Fractional positions (interpolation) mix the two neighbouring rows linearly.
#include <optional>

#include "schemes/info.h"
#ifdef POSENC_TENSORS
#include "schemes/scheme.h"
#endif

namespace posenc {
namespace {

struct LearnedParameters {
  std::optional<std::int64_t> max_positions;
  double init_std = 0.02;
};

}  // namespace

template <>
const Schema<LearnedParameters>& schema<LearnedParameters>() {
  static const Schema<LearnedParameters> table =
      Schema<LearnedParameters>("learned")
          .field("max_positions", &LearnedParameters::max_positions,
                 "rows of the table; null: the training length. Rows never trained measure noise, not extrapolation")
          .range(1, 1 << 22)
          .field("init_std", &LearnedParameters::init_std, "standard deviation of the initial table (GPT-2: 0.02)")
          .at_least(0);
  return table;
}

#ifndef POSENC_TENSORS

namespace {

void check(const LearnedParameters& p, const ModelShape& shape, const Reader& reader) {
  if (p.max_positions.value_or(shape.train_length) < shape.train_length) {
    reader.problem("max_positions",
                   std::to_string(*p.max_positions) + " is below the training length " + std::to_string(shape.train_length));
  }
}

}  // namespace

SchemeInfo learned_info() {
  SchemeInfo info;
  info.name = "learned";
  info.aliases = {"learned_absolute", "learnt", "wpe", "abs_learned"};
  info.title = "learned absolute positions";
  info.paper = "Gehring et al. 2017, arXiv:1705.03122; GPT-2";
  info.traits = {.bounded = true, .real_positions = true, .hooks = "embed"};
  return scheme_info<LearnedParameters>(std::move(info), check);
}

#else

namespace {

class Learned : public Scheme {
 public:
  Learned(const LearnedParameters& p, const ModelShape& shape) : init_std_(p.init_std) {
    table_ = register_parameter("table", torch::zeros({p.max_positions.value_or(shape.train_length), shape.d_model}));
  }

  Tensor embed(const Tensor& x, const Frame& frame) const override {
    const Tensor below = frame.queries.values.floor();                        // [Q]
    const Tensor share = (frame.queries.values - below).to(x.scalar_type());  // [Q]
    const Tensor row = below.to(torch::kInt64);
    const Tensor lower = table_.index_select(0, row);  // [Q, C]
    if (!share.any().item<bool>()) return x + lower;
    const Tensor upper = table_.index_select(0, (row + 1).clamp_max(table_.size(0) - 1));
    return x + torch::lerp(lower, upper, share.unsqueeze(1));
  }

  double last_position() const override { return static_cast<double>(table_.size(0) - 1); }

  void initialise(torch::Generator generator) override {
    torch::NoGradGuard no_grad;
    table_.normal_(0, init_std_, generator);
  }

 private:
  Tensor table_;  ///< [positions, C]
  double init_std_;
};

}  // namespace

std::shared_ptr<Scheme> make_learned(const Json& parameters, const ModelShape& shape) {
  return std::make_shared<Learned>(from_json<LearnedParameters>(parameters), shape);
}

#endif

}  // namespace posenc
