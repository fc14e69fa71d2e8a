#include "model/fused_attention.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/error.h"
#include "kernels/attention.h"

namespace posenc {
namespace {

using kernels::Rows;

/// The inputs that gradients may be wanted for, in this order.
enum Input {
  kQ,
  kK,
  kV,
  kBias,
  kDecay,
  kTemperature,
  kSink,
  kKeyVectors,
  kValueVectors,
  kSlopes,
  kIntercepts,
  kByDistance,
  kByQuery,
  kInputs
};
using Inputs = std::array<Tensor, kInputs>;

/// What backward needs besides tensors.
struct Call : torch::CustomClassHolder {
  Turn query_turn, key_turn;  ///< float32, contiguous
  Tensor kinks;               ///< float32, of a piecewise bias
  Visibility visible;
  std::int64_t first_query = 0;
  bool decay_of_query = true;
  int threads = 1;
  std::array<bool, kInputs> present = {};

  /// Autograd takes tensors that are there; these give each its place again.
  std::vector<Tensor> pack(const Inputs& in) {
    std::vector<Tensor> given;
    for (std::size_t i = 0; i < in.size(); ++i) {
      present[i] = in[i].defined();
      if (present[i]) given.push_back(in[i]);
    }
    return given;
  }
  Inputs unpack(at::ArrayRef<Tensor> given) const {
    Inputs in;
    for (std::size_t i = 0, next = 0; i < in.size(); ++i) {
      if (present[i]) in[i] = given[next++];
    }
    return in;
  }
};

template <class T>
T* data(const Tensor& t) {
  return t.defined() ? t.data_ptr<T>() : nullptr;
}

Rows<float> rows(const Tensor& t) {
  if (!t.defined()) return {};
  return {t.data_ptr<float>(), t.stride(0), t.stride(1), t.stride(2)};
}

Rows<const float> read(const Tensor& t) {
  const Rows<float> r = rows(t);
  return {r.data, r.batch_stride, r.head_stride, r.row_stride};
}

kernels::Rotation rotation(const Turn& turn) {
  if (!turn.cos.defined()) return {};
  return {data<float>(turn.cos), data<float>(turn.sin), turn.cos.size(1), turn.interleaved};
}

Turn for_kernel(const Turn& turn) {
  if (!turn.cos.defined()) return {};
  return {turn.cos.to(torch::kFloat32).contiguous(), turn.sin.to(torch::kFloat32).contiguous(), turn.interleaved};
}

Tensor dense_rows(const Tensor& t) { return t.stride(3) == 1 || t.size(3) == 1 ? t : t.contiguous(); }

kernels::AttentionShape shape_of(const Inputs& in, const Call& call) {
  kernels::AttentionShape shape;
  shape.batch = in[kQ].size(0);
  shape.heads = in[kQ].size(1);
  shape.kv_heads = in[kK].size(1);
  shape.queries = in[kQ].size(2);
  shape.keys = in[kK].size(2);
  shape.first_query = call.first_query;
  shape.width = in[kQ].size(3);
  shape.value_width = in[kV].size(3);
  shape.visible = call.visible;
  return shape;
}

kernels::AttentionInputs inputs_of(const Inputs& in, const Call& call) {
  kernels::AttentionInputs a;
  a.q = read(in[kQ]);
  a.k = read(in[kK]);
  a.v = read(in[kV]);
  a.scale = static_cast<float>(1 / std::sqrt(static_cast<double>(in[kQ].size(3))));
  a.q_rotation = rotation(call.query_turn);
  a.k_rotation = rotation(call.key_turn);
  a.temperature = data<float>(in[kTemperature]);
  if (a.temperature) a.temperature_heads = in[kTemperature].size(0);
  a.distance_bias = data<float>(in[kBias]);
  if (a.distance_bias) a.bias_heads = in[kBias].size(0);
  a.decay = data<double>(in[kDecay]);
  a.decay_of_query = call.decay_of_query;
  a.sink = data<float>(in[kSink]);
  a.relative_keys = data<float>(in[kKeyVectors]);
  a.relative_values = data<float>(in[kValueVectors]);
  for (const Input vectors : {kKeyVectors, kValueVectors}) {
    if (in[vectors].defined()) a.relative_heads = in[vectors].size(0);
  }
  if (in[kSlopes].defined()) {
    a.piecewise = {data<float>(call.kinks),      call.kinks.size(0),           data<float>(in[kSlopes]),
                   data<float>(in[kIntercepts]), data<float>(in[kByDistance]), data<float>(in[kByQuery])};
  }
  return a;
}

/// [B, H, n, D] laid out as [B, n, H, D], which is how projections come and go.
Tensor by_token(std::int64_t batch, std::int64_t heads, std::int64_t n, std::int64_t width, const Tensor& like) {
  return torch::empty({batch, n, heads, width}, like.options()).transpose(1, 2);
}

class FusedAttention : public torch::autograd::Function<FusedAttention> {
 public:
  static Tensor forward(torch::autograd::AutogradContext* ctx, const c10::intrusive_ptr<Call>& call, at::TensorList given) {
    const Inputs in = call->unpack(given);
    const auto shape = shape_of(in, *call);
    const Tensor y = by_token(shape.batch, shape.heads, shape.queries, shape.value_width, in[kQ]);
    const Tensor log_sum = torch::empty({shape.batch, shape.heads, shape.queries}, in[kQ].options());
    kernels::attention_forward(shape, inputs_of(in, *call), rows(y), data<float>(log_sum), call->threads);
    if (ctx) {
      auto kept = given.vec();
      kept.push_back(y);
      kept.push_back(log_sum);
      ctx->saved_data["call"] = torch::IValue::make_capsule(call);
      ctx->save_for_backward(std::move(kept));
    }
    return y;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx, torch::autograd::variable_list grads) {
    const auto call = c10::static_intrusive_pointer_cast<Call>(ctx->saved_data["call"].toCapsule());
    const auto saved = ctx->get_saved_variables();
    const std::size_t given = saved.size() - 2;
    const Inputs in = call->unpack({saved.data(), given});
    const auto shape = shape_of(in, *call);
    const auto [batch, heads, keys] = std::tuple(shape.batch, shape.heads, shape.keys);
    // One buffer for the three, in the layout of the projection they come from.
    const bool alike = shape.width == shape.value_width && shape.queries == keys;
    const Tensor all = alike ? by_token(batch, heads + 2 * shape.kv_heads, keys, shape.width, in[kQ]) : Tensor();
    const auto part = [&](const Tensor& like, std::int64_t first) {
      return alike ? all.slice(1, first, first + like.size(1)) : by_token(batch, like.size(1), like.size(2), like.size(3), like);
    };
    Inputs d;
    d[kQ] = part(in[kQ], 0);
    d[kK] = part(in[kK], heads);
    d[kV] = part(in[kV], heads + shape.kv_heads);
    const auto want = [&](Input i, at::IntArrayRef sizes) {
      if (in[i].defined() && in[i].requires_grad()) d[i] = torch::empty(sizes, in[i].options());
    };
    want(kBias, {batch, heads, keys});
    want(kDecay, {batch, heads, keys});
    want(kTemperature, {batch, heads, shape.queries});
    want(kSink, {batch, heads});
    want(kKeyVectors, {batch, heads, keys, shape.width});
    want(kValueVectors, {batch, heads, keys, shape.value_width});
    // Of the pieces all or none: the kernel takes them together.
    const bool piecewise =
        in[kSlopes].defined() && std::any_of(in.begin() + kSlopes, in.end(), [](const Tensor& t) { return t.requires_grad(); });
    if (piecewise) {
      const auto zeros = [&](Input i, at::IntArrayRef sizes) { d[i] = torch::zeros(sizes, in[i].options()); };
      zeros(kSlopes, {batch, heads, in[kSlopes].size(1)});
      zeros(kIntercepts, {batch, heads, in[kSlopes].size(1)});
      zeros(kByDistance, {batch, heads, keys});
      zeros(kByQuery, {batch, heads, shape.queries});
    }
    kernels::AttentionGradients out;
    out.q = rows(d[kQ]);
    out.k = rows(d[kK]);
    out.v = rows(d[kV]);
    out.distance_bias = data<float>(d[kBias]);
    out.decay = data<double>(d[kDecay]);
    out.temperature = data<float>(d[kTemperature]);
    out.sink = data<float>(d[kSink]);
    out.relative_keys = data<float>(d[kKeyVectors]);
    out.relative_values = data<float>(d[kValueVectors]);
    out.piecewise = {data<float>(d[kSlopes]), data<float>(d[kIntercepts]), data<float>(d[kByDistance]), data<float>(d[kByQuery])};
    kernels::attention_backward(shape, inputs_of(in, *call), read(saved[given]), data<float>(saved[given + 1]),
                                read(dense_rows(grads[0])), out, call->threads);
    for (const Input i : {kByDistance, kByQuery}) {
      if (d[i].defined()) d[i] = d[i].sum(at::IntArrayRef{0, 1});
    }
    for (const Input i : {kBias, kTemperature, kSink, kKeyVectors, kValueVectors, kSlopes,
                          kIntercepts}) {  // over the batch, and the heads that share
      if (!d[i].defined()) continue;
      d[i] = d[i].sum(0);
      if (in[i].size(0) < d[i].size(0)) d[i] = d[i].sum(0, /*keepdim=*/true);
    }
    torch::autograd::variable_list result = {Tensor()};  // none for `call`
    for (std::size_t i = 0; i < d.size(); ++i) {
      if (call->present[i]) result.push_back(d[i]);
    }
    return result;
  }
};

Tensor contiguous(const Tensor& t, torch::ScalarType dtype) { return t.defined() ? t.to(dtype).contiguous() : t; }

}  // namespace

Tensor fused_attention(const Tensor& q, const Tensor& k, const Tensor& v, const FusedTerms& terms) {
  const ContentTerms& content = terms.content;
  POSENC_CHECK(!content.decay.defined() || !content.key_bias.defined(), "a decay beside a bias of keys");
  auto call = c10::make_intrusive<Call>();
  call->query_turn = for_kernel(terms.query_turn);
  call->key_turn = for_kernel(terms.key_turn);
  call->visible = terms.visible;
  call->first_query = terms.first_query;
  call->decay_of_query = content.decay.defined();
  call->threads = terms.threads;
  Tensor decay = content.decay.defined() ? content.decay : content.key_bias.defined() ? -content.key_bias : Tensor();
  if (decay.defined()) decay = decay.expand({q.size(0), q.size(1), k.size(2)});
  const PiecewiseBias bias = terms.piecewise.value_or(PiecewiseBias{});
  call->kinks = contiguous(bias.kinks, torch::kFloat32);
  const auto floats = [](const Tensor& t) { return contiguous(t, torch::kFloat32); };
  const std::vector<Tensor> inputs =
      call->pack({dense_rows(q), dense_rows(k), dense_rows(v), floats(content.distance_bias), contiguous(decay, torch::kFloat64),
                  floats(terms.temperature), floats(terms.sink), floats(content.key_vectors), floats(content.value_vectors),
                  floats(bias.slopes), floats(bias.intercepts), floats(bias.by_distance), floats(bias.by_query)});
  if (!torch::GradMode::is_enabled()) return FusedAttention::forward(nullptr, call, inputs);
  return FusedAttention::apply(call, at::TensorList(inputs));
}

}  // namespace posenc
