// Attention: the kernel on arrays that lie as a layer has them, q, k and v beside each other in one projection, heads beside each
// other in a row; and the readable paths through AttentionPlan.
#include <cmath>
#include <memory>

#include "kernels/attention.h"
#include "model/attention.h"
#include "model/config.h"
#include "run/bench_work.h"

namespace posenc {
namespace {

constexpr std::int64_t kHeads = AttentionCase::kHeads, kWidth = AttentionCase::kWidth, kRow = kHeads * kWidth;

/// q, k or v (0, 1, 2) within a projection [T, 3·H·D].
template <class T>
kernels::Rows<T> part_of(T* projection, std::int64_t part, std::int64_t tokens) {
  return {projection + part * kRow, 3 * kRow * tokens, kWidth, 3 * kRow};
}

/// A scheme over positions 0 … T − 1.
struct Positional {
  std::shared_ptr<Scheme> scheme;
  SchemeTraits traits;
  Frame frame;

  explicit Positional(const AttentionCase& c) {
    const PositionConfig position = from_json<ModelConfig>({{"position", c.scheme}}).position;
    const ModelShape shape{1, kRow, kHeads, kHeads, kWidth, c.tokens, c.tokens};
    scheme = make_scheme(position.name, position.parameters, shape);
    scheme->initialise(bench_generator());
    traits = scheme_of(position).traits;
    const Positions positions{torch::arange(c.tokens, torch::kFloat64), 1};
    frame = {positions, positions, 0, c.tokens};
  }
};

/// The kernel's arrays for one forward and backward.
class FusedCall {
 public:
  FusedCall(const AttentionCase& c, int threads) : threads_(threads) {
    const std::int64_t t = c.tokens;
    shape_.heads = shape_.kv_heads = kHeads;
    shape_.queries = shape_.keys = t;
    shape_.width = shape_.value_width = kWidth;
    qkv_ = torch::randn({t, 3 * kRow}, bench_generator());
    y_ = torch::empty({t, kRow});
    log_sum_ = torch::empty({kHeads, t});
    const float* qkv = qkv_.data_ptr<float>();
    in_.q = part_of(qkv, 0, t);
    in_.k = part_of(qkv, 1, t);
    in_.v = part_of(qkv, 2, t);
    in_.scale = static_cast<float>(1 / std::sqrt(static_cast<double>(kWidth)));
    set_position(Positional(c));
    if (c.backward) set_gradients(t);
  }

  void forward() { kernels::attention_forward(shape_, in_, output(), log_sum_.data_ptr<float>(), threads_); }

  void backward() {
    const kernels::Rows<float> y = output();
    kernels::attention_backward(shape_, in_, {y.data, y.batch_stride, y.head_stride, y.row_stride}, log_sum_.data_ptr<float>(),
                                {dy_.data_ptr<float>(), y.batch_stride, y.head_stride, y.row_stride}, out_, threads_);
  }

 private:
  kernels::Rows<float> output() { return {y_.data_ptr<float>(), y_.numel(), kWidth, kRow}; }

  void set_position(const Positional& p) {
    bias_ = p.scheme->distance_bias(p.frame.keys.values);
    if (bias_.defined()) {
      bias_ = bias_.to(torch::kFloat32).contiguous();  // [H, T]
      in_.distance_bias = bias_.data_ptr<float>();
      in_.bias_heads = bias_.size(0);
    }
    const Turn turn = p.scheme->turn(Side::kQuery, p.frame);
    if (!turn.cos.defined()) return;
    cos_ = turn.cos.to(torch::kFloat32).contiguous();  // [T, D/2]
    sin_ = turn.sin.to(torch::kFloat32).contiguous();
    in_.q_rotation = in_.k_rotation = {cos_.data_ptr<float>(), sin_.data_ptr<float>(), cos_.size(1), turn.interleaved};
  }

  void set_gradients(std::int64_t t) {
    dy_ = torch::randn({t, kRow}, bench_generator());
    dqkv_ = torch::empty_like(qkv_);
    auto* gradients = dqkv_.data_ptr<float>();
    out_.q = part_of(gradients, 0, t);
    out_.k = part_of(gradients, 1, t);
    out_.v = part_of(gradients, 2, t);
    if (!bias_.defined()) return;
    dbias_ = torch::empty({kHeads, t});
    out_.distance_bias = dbias_.data_ptr<float>();
  }

  int threads_;
  kernels::AttentionShape shape_;
  kernels::AttentionInputs in_;
  kernels::AttentionGradients out_;
  Tensor qkv_, y_, log_sum_, bias_, cos_, sin_, dy_, dqkv_, dbias_;
};

/// The same through AttentionPlan. The plan, which all layers of a model share, is made beforehand.
struct PlannedCall {
  Positional position;
  AttentionPlan plan;
  AttentionInput in;
  Tensor dy;

  explicit PlannedCall(const AttentionCase& c)
      : position(c),
        plan(*position.scheme, position.traits, position.frame, {.path = attention_path(c.path), .heads = kHeads}),
        dy(torch::randn({1, kHeads, c.tokens, kWidth}, bench_generator())) {
    const auto qkv = torch::randn({1, c.tokens, 3 * kHeads, kWidth}, bench_generator()).transpose(1, 2).chunk(3, 1);
    in.q = qkv[0].detach().requires_grad_(c.backward);
    in.k = qkv[1].detach().requires_grad_(c.backward);
    in.v = qkv[2].detach().requires_grad_(c.backward);
    in.x = torch::zeros({1, c.tokens, kRow});
  }

  void forward() const {
    const torch::NoGradGuard no_grad;
    plan(in);
  }
  void forward_backward() const { torch::autograd::grad({plan(in)}, {in.q, in.k, in.v}, {dy}); }
};

/// Products over the causal half only: two forward (q·kᵀ, w·v), five backward (q·kᵀ again, dy·vᵀ, one each for dq, dk, dv).
/// Counted alike on every path, whatever it really computes, so that rates compare as times do.
double attention_flops(const AttentionCase& c) {
  const double pairs = static_cast<double>(c.tokens) * static_cast<double>(c.tokens + 1) / 2;
  return (c.backward ? 7 : 2) * 2 * static_cast<double>(kHeads * kWidth) * pairs;
}

}  // namespace

BenchWork prepare(const AttentionCase& c, int threads) {
  BenchWork work;
  work.flops = attention_flops(c);
  if (c.path == "fused") {
    const auto call = std::make_shared<FusedCall>(c, threads);
    work.threads = threads;
    work.iteration = [call, backward = c.backward] {
      call->forward();
      if (backward) call->backward();
    };
  } else {
    const torch::AutoGradMode grad_mode(c.backward);  // the plan sizes its blocks by it
    const auto call = std::make_shared<PlannedCall>(c);
    work.iteration = [call, backward = c.backward] { backward ? call->forward_backward() : call->forward(); };
  }
  return work;
}

}  // namespace posenc
