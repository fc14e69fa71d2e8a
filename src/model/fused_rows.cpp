#include "model/fused_rows.h"

#include "kernels/rows.h"

namespace posenc {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

bool fits(const Tensor& x) { return x.scalar_type() == torch::kFloat32 && x.device().is_cpu(); }
const float* data(const Tensor& t) { return t.data_ptr<float>(); }
float* out(const Tensor& t) { return t.data_ptr<float>(); }

struct RmsNorm : torch::autograd::Function<RmsNorm> {
  static Tensor forward(AutogradContext* ctx, const Tensor& given, const Tensor& weight, double eps) {
    const Tensor x = given.contiguous();
    const std::int64_t width = x.size(-1), rows = x.numel() / width;
    const Tensor y = torch::empty_like(x), r = torch::empty({rows}, x.options());
    kernels::rms_norm(data(x), data(weight), rows, width, static_cast<float>(eps), out(y), out(r));
    if (ctx) ctx->save_for_backward({x, weight, r});
    return y;
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    const Tensor &x = saved[0], &weight = saved[1], &r = saved[2];
    const Tensor dy = grads[0].contiguous(), dx = torch::empty_like(x), dweight = torch::empty_like(weight);
    kernels::rms_norm_backward(data(x), data(weight), data(r), data(dy), r.size(0), x.size(-1), out(dx), out(dweight));
    return {dx, dweight, {}};
  }
};

struct SwiGlu : torch::autograd::Function<SwiGlu> {
  static Tensor forward(AutogradContext* ctx, const Tensor& given_gate, const Tensor& given_up) {
    const Tensor gate = given_gate.contiguous(), up = given_up.contiguous(), y = torch::empty_like(gate);
    kernels::swiglu(data(gate), data(up), y.numel(), out(y));
    if (ctx) ctx->save_for_backward({gate, up});
    return y;
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    const Tensor dy = grads[0].contiguous(), dgate = torch::empty_like(dy), dup = torch::empty_like(dy);
    kernels::swiglu_backward(data(saved[0]), data(saved[1]), data(dy), dy.numel(), out(dgate), out(dup));
    return {dgate, dup};
  }
};

struct NllSum : torch::autograd::Function<NllSum> {
  static Tensor forward(AutogradContext* ctx, const Tensor& given, const Tensor& targets) {
    const Tensor logits = given.contiguous(), nll = torch::empty({logits.size(0)}, logits.options());
    const Tensor dlogits = ctx ? torch::empty_like(logits) : Tensor();
    kernels::softmax_nll(data(logits), targets.contiguous().data_ptr<std::int64_t>(), logits.size(0), logits.size(1), out(nll),
                         ctx ? out(dlogits) : nullptr);
    if (ctx) ctx->save_for_backward({dlogits});
    return nll.sum();
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    return {ctx->get_saved_variables()[0] * grads[0], {}};
  }
};

}  // namespace

Tensor rms_norm(const Tensor& x, const Tensor& weight, double eps) {
  if (!fits(x)) return x * torch::rsqrt(x.square().mean(-1, true) + eps) * weight;
  return torch::GradMode::is_enabled() ? RmsNorm::apply(x, weight, eps) : RmsNorm::forward(nullptr, x, weight, eps);
}

Tensor swiglu(const Tensor& gate, const Tensor& up) {
  if (!fits(gate)) return torch::silu(gate) * up;
  return torch::GradMode::is_enabled() ? SwiGlu::apply(gate, up) : SwiGlu::forward(nullptr, gate, up);
}

Tensor nll_sum(const Tensor& logits, const Tensor& targets) {
  if (!fits(logits)) return torch::nll_loss(torch::log_softmax(logits, -1), targets, {}, torch::Reduction::Sum);
  return torch::GradMode::is_enabled() ? NllSum::apply(logits, targets) : NllSum::forward(nullptr, logits, targets);
}

}  // namespace posenc
