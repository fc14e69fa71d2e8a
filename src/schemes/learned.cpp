// Learned absolute positions: x = E[token] + P[position]. Gehring et al. 2017 (arXiv:1705.03122); GPT-2's wpe. Undefined beyond
// its table, which is refused unless `overflow` names what to do. Fractional positions (interpolation) mix the two neighbouring
// rows linearly.
#include <algorithm>
#include <optional>

#include "schemes/absolute.h"

namespace posenc {
namespace {

struct LearnedParameters : FusionParameters {
  std::optional<std::int64_t> max_positions;
  double init_std = 0.02;
  std::string overflow = "error";
};

std::int64_t trained_positions(const ModelShape& shape) { return std::max(shape.positions, shape.train_length); }

}  // namespace

template <>
const Schema<LearnedParameters>& schema<LearnedParameters>() {
  static const Schema<LearnedParameters> table = with_fusion(
      Schema<LearnedParameters>("learned")
          .field("max_positions", &LearnedParameters::max_positions,
                 "rows of the table; null: as many as training uses. Rows never trained measure noise, not extrapolation")
          .range(1, 1 << 22)
          .field("init_std", &LearnedParameters::init_std, "standard deviation of the initial table (GPT-2: 0.02)")
          .at_least(0)
          .field("overflow", &LearnedParameters::overflow,
                 "positions beyond the table: error: the length is refused; interpolate: the window is squeezed into the table; "
                 "clamp: they take the last row; zero: they get none")
          .choices({"error", "interpolate", "clamp", "zero"}));
  return table;
}

#ifndef POSENC_TENSORS

namespace {

void check(const LearnedParameters& p, const ModelShape& shape, const Reader& reader) {
  check_fusion(p, shape, reader);
  if (p.max_positions.value_or(trained_positions(shape)) < trained_positions(shape)) {
    reader.problem("max_positions",
                   std::to_string(*p.max_positions) + " is below the " +
                       (trained_positions(shape) == shape.train_length ? "training length " : "positions of training, ") +
                       std::to_string(trained_positions(shape)));
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

class Learned : public AbsoluteScheme {
 public:
  Learned(const LearnedParameters& p, const ModelShape& shape)
      : AbsoluteScheme(p, shape.d_model), overflow_(p.overflow), init_std_(p.init_std) {
    table_ = register_parameter("table", torch::zeros({p.max_positions.value_or(trained_positions(shape)), width()}));
  }

  double last_position() const override {
    return overflow_ == "error" ? static_cast<double>(table_.size(0) - 1) : std::numeric_limits<double>::infinity();
  }

  void initialise(torch::Generator generator) override {
    AbsoluteScheme::initialise(generator);
    torch::NoGradGuard no_grad;
    table_.normal_(0, init_std_, generator);
  }

 protected:
  Tensor vectors(const Frame& frame, torch::ScalarType dtype) const override {
    const double end = static_cast<double>(table_.size(0) - 1);
    Tensor at = frame.queries.values;  // [Q]
    if (overflow_ == "interpolate") {
      const double last = frame.window_end ? *frame.window_end : frame.keys.values.max().item<double>();
      if (last > end) at = at * end / last;  // both ends kept
    }
    if (overflow_ != "error") at = at.clamp_max(end);
    const Tensor rows = rows_at(at, dtype);  // [Q, width]
    return overflow_ == "zero" ? rows * (frame.queries.values <= end).to(dtype).unsqueeze(1) : rows;
  }

 private:
  Tensor rows_at(const Tensor& at, torch::ScalarType dtype) const {
    const Tensor below = at.floor();
    const Tensor share = (at - below).to(dtype);
    const Tensor row = below.to(torch::kInt64);
    const Tensor lower = table_.index_select(0, row);
    if (!share.any().item<bool>()) return lower;
    const Tensor upper = table_.index_select(0, (row + 1).clamp_max(table_.size(0) - 1));
    return torch::lerp(lower, upper, share.unsqueeze(1));
  }

  Tensor table_;  ///< [positions, width]
  std::string overflow_;
  double init_std_;
};

}  // namespace

std::shared_ptr<Scheme> make_learned(const Json& parameters, const ModelShape& shape) {
  return std::make_shared<Learned>(from_json<LearnedParameters>(parameters), shape);
}

#endif

}  // namespace posenc
