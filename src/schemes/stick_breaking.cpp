// Stick-breaking attention: from the nearest key backwards, each takes its share of what is left; no softmax and no positions.
// Tan et al. 2024 (arXiv:2410.17980).
//   A_ij = β_ij·Π_{j<t<i}(1 − β_it),  β = σ(z),  over strictly past keys;  in logs ln σ(z_ij) + Σ_{j<t<i} ln σ(−z_it)
// What no key takes is dropped or goes to the query's own value (the authors' code has both). Keys behind a window take nothing.
#include "schemes/info.h"
#ifdef POSENC_TENSORS
#include "schemes/scheme.h"
#endif

namespace posenc {
namespace {

struct StickBreakingParameters {
  std::string remainder = "drop";
};

}  // namespace

template <>
const Schema<StickBreakingParameters>& schema<StickBreakingParameters>() {
  static const Schema<StickBreakingParameters> table =
      Schema<StickBreakingParameters>("stick_breaking")
          .field("remainder", &StickBreakingParameters::remainder,
                 "what the past keys leave: drop it (the first token then gets 0), or give it to the query's own value")
          .choices({"drop", "self"});
  return table;
}

#ifndef POSENC_TENSORS

SchemeInfo stick_breaking_info() {
  SchemeInfo info;
  info.name = "stick_breaking";
  info.aliases = {"stickbreaking"};
  info.title = "stick-breaking attention";
  info.paper = "Tan et al. 2024, arXiv:2410.17980";
  info.traits = {.relative = true, .softmax = false, .hooks = "weights"};
  return scheme_info<StickBreakingParameters>(std::move(info));
}

#else

namespace {

class StickBreaking : public Scheme {
 public:
  explicit StickBreaking(const StickBreakingParameters& p) : keep_remainder_(p.remainder == "self") {}

  Tensor weights(const Tensor& s, const Frame& frame) const override {
    const Tensor own = torch::arange(frame.key_count()).unsqueeze(0) ==
                       torch::arange(frame.first_query, frame.first_query + frame.query_count()).unsqueeze(1);  // [Q, K]
    const Tensor absent = own | frame.unseen();
    const Tensor z = s.masked_fill(absent, 0);
    const Tensor log_left = torch::log_sigmoid(-z).masked_fill(absent, 0);
    const Tensor from_here = log_left.flip(-1).cumsum(-1).flip(-1);  // Σ_{t≥j}; nearest first, so that near sums stay exact
    const Tensor nearer = torch::constant_pad_nd(from_here.slice(-1, 1), {0, 1});        // Σ_{t>j}
    const Tensor taken = (torch::log_sigmoid(z) + nearer).exp().masked_fill(absent, 0);  // [B, H, Q, K]
    return keep_remainder_ ? torch::where(own, from_here.slice(-1, 0, 1).exp(), taken) : taken;
  }

 private:
  bool keep_remainder_;
};

}  // namespace

std::shared_ptr<Scheme> make_stick_breaking(const Json& parameters, const ModelShape&) {
  return std::make_shared<StickBreaking>(from_json<StickBreakingParameters>(parameters));
}

#endif

}  // namespace posenc
