#ifdef POSENC_TENSORS
#include "schemes/rotation.h"

#include <utility>

namespace posenc {
namespace {

/// The two members of every pair among the first `width` dims of x, as views.
std::pair<Tensor, Tensor> pairs(const Tensor& x, std::int64_t width, bool interleaved) {
  if (interleaved) return {x.slice(-1, 0, width, 2), x.slice(-1, 1, width, 2)};
  return {x.slice(-1, 0, width / 2), x.slice(-1, width / 2, width)};
}

Tensor turn(const Tensor& x, const Tensor& cos, const Tensor& sin, bool interleaved) {
  const std::int64_t width = 2 * cos.size(-1);
  Tensor out = torch::empty(x.sizes(), x.options());
  const auto [a, b] = pairs(x, width, interleaved);
  auto [out_a, out_b] = pairs(out, width, interleaved);
  torch::mul_out(out_a, a, cos).addcmul_(b, sin, -1);
  torch::mul_out(out_b, a, sin).addcmul_(b, cos);
  if (width < x.size(-1)) out.slice(-1, width).copy_(x.slice(-1, width));
  return out;
}

/// The gradient is the turn back (times the same factor): one node in the graph instead of six.
class Turn : public torch::autograd::Function<Turn> {
 public:
  static Tensor forward(torch::autograd::AutogradContext* ctx, const Tensor& x, const Tensor& cos, const Tensor& sin,
                        bool interleaved) {
    ctx->save_for_backward({cos, sin});
    ctx->saved_data["interleaved"] = interleaved;
    return turn(x, cos, sin, interleaved);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx, torch::autograd::variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    return {turn(grads[0], saved[0], -saved[1], ctx->saved_data["interleaved"].toBool()), {}, {}, {}};
  }
};

/// The same in plain operations, for angles that are learned.
Tensor differentiable_turn(const Tensor& x, const Tensor& cos, const Tensor& sin, bool interleaved) {
  const std::int64_t width = 2 * cos.size(-1);
  const auto [a, b] = pairs(x, width, interleaved);
  const Tensor turned_a = a * cos - b * sin, turned_b = a * sin + b * cos;
  const Tensor turned = interleaved ? torch::stack({turned_a, turned_b}, -1).flatten(-2) : torch::cat({turned_a, turned_b}, -1);
  return width < x.size(-1) ? torch::cat({turned, x.slice(-1, width)}, -1) : turned;
}

}  // namespace

Tensor turn_pairs(const Tensor& x, const Tensor& cos, const Tensor& sin, bool interleaved) {
  const Tensor c = cos.to(x.scalar_type()), s = sin.to(x.scalar_type());
  return c.requires_grad() || s.requires_grad() ? differentiable_turn(x, c, s, interleaved) : Turn::apply(x, c, s, interleaved);
}

}  // namespace posenc
#endif
