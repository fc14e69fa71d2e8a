#include "model/affine.h"

#include <oneapi/dnnl/dnnl.h>

#include "core/error.h"

namespace posenc {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// A matrix or its transpose, rows of which are dense.
struct Operand {
  const Tensor& matrix;
  bool transposed = false;
};

/// c [m, n] = a·b + beta·c.
void multiply(Operand a, Operand b, float beta, const Tensor& c) {
  const std::int64_t depth = a.matrix.size(a.transposed ? 0 : 1);
  if (c.numel() == 0) return;
  const auto status =
      dnnl_sgemm(a.transposed ? 'T' : 'N', b.transposed ? 'T' : 'N', c.size(0), c.size(1), depth, 1, a.matrix.data_ptr<float>(),
                 a.matrix.stride(0), b.matrix.data_ptr<float>(), b.matrix.stride(0), beta, c.data_ptr<float>(), c.stride(0));
  POSENC_CHECK(status == dnnl_success, "oneDNN's sgemm refused a product");
}

/// [rows, width] with dense rows, a view where x allows it.
Tensor matrix(const Tensor& x) {
  const Tensor flat = x.reshape({-1, x.size(-1)});
  return flat.stride(1) == 1 && flat.stride(0) >= std::max<std::int64_t>(1, flat.size(1)) ? flat : flat.contiguous();
}

Tensor product(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  auto sizes = x.sizes().vec();
  sizes.back() = weight.size(0);
  const Tensor y = torch::empty({x.numel() / x.size(-1), weight.size(0)}, x.options());
  if (bias.defined()) y.copy_(bias.expand_as(y));
  multiply({matrix(x)}, {matrix(weight), true}, bias.defined() ? 1 : 0, y);
  return y.view(sizes);
}

struct Affine : torch::autograd::Function<Affine> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x, const Tensor& weight, const c10::optional<Tensor>& bias) {
    ctx->save_for_backward({x, weight});
    ctx->saved_data["bias"] = bias.has_value();
    return product(x, weight, bias.value_or(Tensor()));
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    const Tensor x = matrix(saved[0]), weight = matrix(saved[1]), dy = matrix(grads[0]);
    variable_list out(3);
    if (saved[0].requires_grad()) {
      out[0] = torch::empty(saved[0].sizes(), x.options());
      multiply({dy}, {weight}, 0, out[0].view(x.sizes()));
    }
    if (saved[1].requires_grad()) {
      out[1] = torch::empty(saved[1].sizes(), x.options());
      multiply({dy, true}, {x}, 0, out[1]);
    }
    if (ctx->saved_data["bias"].toBool()) out[2] = dy.sum(0);
    return out;
  }
};

}  // namespace

Tensor affine(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  if (x.scalar_type() != torch::kFloat32 || weight.scalar_type() != torch::kFloat32 || !x.device().is_cpu())
    return torch::linear(x, weight, bias);
  if (!torch::GradMode::is_enabled()) return product(x, weight, bias);
  return Affine::apply(x, weight, bias.defined() ? c10::optional<Tensor>(bias) : c10::nullopt);
}

}  // namespace posenc
