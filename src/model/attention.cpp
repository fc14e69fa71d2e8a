#include "model/attention.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "schemes/diagonals.h"
#include "schemes/rotation.h"

namespace posenc {
namespace {

/// masked_bias when neighbouring positions are `spacing` apart: the entry depends on i − j alone, so one row of Q + K − 1 numbers
/// holds them all.
Tensor toeplitz_bias(const Scheme& scheme, const Frame& frame, torch::ScalarType dtype) {
  const Tensor steps = diagonal_steps(frame);
  Tensor row = scheme.distance_bias(steps.clamp_min(0) * frame.queries.spacing);  // [H, Q+K−1]
  row = row.defined() ? row.to(dtype) : torch::zeros({1, steps.size(0)}, dtype);
  row = row.masked_fill(steps < 0, -std::numeric_limits<double>::infinity());
  const Tensor bias = from_diagonals(row, frame);  // [H or 1, Q, K]
  return frame.visible == Visibility{} ? bias : bias.masked_fill(frame.unseen(), -std::numeric_limits<double>::infinity());
}

/// What does not change from layer to layer.
struct Rule {
  const Scheme* scheme;
  bool content_dependent;
  Frame frame;
};

Tensor reference(const Rule& rule, const Content& c, const Tensor& bias, const Tensor& sink) {
  const auto batch = c.q.size(0), heads = c.q.size(1), queries = c.q.size(2), width = c.q.size(3), keys = c.k.size(2);
  const double scale = 1 / std::sqrt(static_cast<double>(width));
  const Tensor q = c.q.reshape({batch * heads, queries, width});
  const Tensor k = c.k.reshape({batch * heads, keys, width});
  const Tensor base = bias.unsqueeze(0).expand({batch, heads, queries, keys}).reshape({batch * heads, queries, keys});
  Tensor s = torch::baddbmm(base, q, k.transpose(1, 2), 1, scale).view({batch, heads, queries, keys});  // [B, H, Q, K]
  if (rule.content_dependent) {
    const Tensor unseen = rule.frame.unseen();  // [Q, K]
    s = rule.scheme->score(s.masked_fill(unseen, 0), c, rule.frame).masked_fill(unseen, -std::numeric_limits<double>::infinity());
  }
  if (sink.defined()) s = torch::cat({s, sink.view({1, heads, 1, 1}).expand({batch, heads, queries, 1})}, 3);
  const Tensor weights = rule.scheme->weights(s, rule.frame).slice(3, 0, keys);  // [B, H, Q, K]
  return rule.scheme->mix(torch::matmul(weights, c.v), weights, rule.frame);     // [B, H, Q, D]
}

/// One block of queries, whose logits are recomputed in backward.
struct Block : torch::CustomClassHolder {
  Block(Rule r, bool with_sink) : rule(std::move(r)), has_sink(with_sink) {}
  Rule rule;
  bool has_sink;

  /// inputs: q, k, v, x, the sink if there is one, then the scheme's parameters.
  Tensor operator()(at::TensorList inputs) const {
    const Content content{inputs[0], inputs[1], inputs[2], inputs[3]};
    return reference(rule, content, masked_bias(*rule.scheme, rule.frame, content.q.scalar_type()),
                     has_sink ? inputs[4] : Tensor());
  }
};

class RecomputedBlock : public torch::autograd::Function<RecomputedBlock> {
 public:
  static Tensor forward(torch::autograd::AutogradContext* ctx, const c10::intrusive_ptr<Block>& block, at::TensorList inputs) {
    ctx->saved_data["block"] = torch::IValue::make_capsule(block);
    ctx->save_for_backward(inputs.vec());
    return (*block)(inputs);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx, torch::autograd::variable_list grads) {
    const auto block = c10::static_intrusive_pointer_cast<Block>(ctx->saved_data["block"].toCapsule());
    auto saved = ctx->get_saved_variables();
    std::vector<Tensor> inputs;
    const torch::AutoGradMode grad_mode(true);
    for (std::size_t i = 0; i < saved.size(); ++i) {  // content is cut off the graph; parameters are leaves already
      inputs.push_back(i < 4 && saved[i].requires_grad() ? saved[i].detach().requires_grad_() : saved[i]);
    }
    const Tensor y = (*block)(inputs);
    std::vector<Tensor> wanted;
    for (const Tensor& input : inputs) {
      if (input.requires_grad()) wanted.push_back(input);
    }
    const auto found =
        torch::autograd::grad({y}, wanted, {grads[0]}, /*retain_graph=*/false, /*create_graph=*/false, /*allow_unused=*/true);
    torch::autograd::variable_list out(1);  // nothing for `block`
    std::size_t next = 0;
    for (const Tensor& input : inputs) out.push_back(input.requires_grad() ? found[next++] : Tensor());
    return out;
  }
};

Tensor blocked(const Rule& rule, const Content& c, const Tensor& sink, std::int64_t rows) {
  const Frame& frame = rule.frame;
  std::vector<Tensor> blocks;
  const std::vector<Tensor> parameters = rule.scheme->used_parameters();
  for (std::int64_t begin = 0; begin < frame.query_count(); begin += rows) {
    const std::int64_t end = std::min(begin + rows, frame.query_count());
    const std::int64_t keys = frame.first_query + end;  // the last query of the block sees these
    Frame part = frame;
    part.queries = frame.queries.slice(begin, end);
    part.keys = frame.keys.slice(0, keys);
    part.first_query = frame.first_query + begin;
    std::vector<Tensor> inputs = {c.q.slice(2, begin, end), c.k.slice(2, 0, keys), c.v.slice(2, 0, keys), c.x.slice(1, 0, keys)};
    if (sink.defined()) inputs.push_back(sink);
    inputs.insert(inputs.end(), parameters.begin(), parameters.end());
    const auto block = c10::make_intrusive<Block>(Rule{rule.scheme, rule.content_dependent, std::move(part)}, sink.defined());
    blocks.push_back(torch::GradMode::is_enabled() ? RecomputedBlock::apply(block, at::TensorList(inputs)) : (*block)(inputs));
  }
  return torch::cat(blocks, 2);  // [B, H, Q, D]
}

LogitsShape logits_shape(const Frame& frame, const AttentionOptions& options) {
  return {options.batch, options.heads, frame.query_count(), frame.key_count(),
          static_cast<std::int64_t>(torch::elementSize(options.dtype))};
}

constexpr std::pair<AttentionPath, const char*> kPathNames[] = {{AttentionPath::kAuto, "auto"},
                                                                {AttentionPath::kReference, "reference"},
                                                                {AttentionPath::kBlocked, "blocked"},
                                                                {AttentionPath::kFused, "fused"}};

}  // namespace

AttentionPath attention_path(const std::string& name) {
  for (const auto& [path, known] : kPathNames) {
    if (name == known) return path;
  }
  POSENC_CHECK(false, "no attention path is called " + name);
}

const char* attention_path_name(AttentionPath wanted) {
  for (const auto& [path, name] : kPathNames) {
    if (path == wanted) return name;
  }
  POSENC_CHECK(false, "an attention path without a name");
}

Tensor masked_bias(const Scheme& scheme, const Frame& frame, torch::ScalarType dtype) {
  if (!scheme.dense_bias() && frame.queries.spacing > 0) return toeplitz_bias(scheme, frame, dtype);
  const Tensor bias = scheme.bias(frame);
  const Tensor whole = bias.defined() ? bias.to(dtype) : torch::zeros({1, frame.query_count(), frame.key_count()}, dtype);
  return whole.masked_fill(frame.unseen(), -std::numeric_limits<double>::infinity());
}

std::int64_t attention_block_rows(const LogitsShape& shape, bool training) {
  const std::int64_t limit = training ? kTrainingLogitsBytes : kInferenceLogitsBytes;
  return std::clamp<std::int64_t>(limit / shape.row_bytes(), 1, shape.queries);
}

bool fuses(const Scheme& scheme, const SchemeTraits& traits, const Frame& frame, torch::ScalarType dtype) {
  if (dtype != torch::kFloat32 || !traits.softmax || scheme.dense_bias()) return false;
  if (traits.content_dependent && !scheme.has_content_terms()) return false;
  const bool by_distance = traits.content_dependent || scheme.distance_bias(torch::zeros(1, torch::kFloat64)).defined();
  return frame.queries.spacing > 0 || !by_distance;
}

AttentionPath choose_attention(const Scheme& scheme, const SchemeTraits& traits, const Frame& frame,
                               const AttentionOptions& options) {
  if (options.path == AttentionPath::kReference || options.path == AttentionPath::kBlocked) return options.path;
  if (fuses(scheme, traits, frame, options.dtype)) return AttentionPath::kFused;
  const LogitsShape shape = logits_shape(frame, options);
  return attention_block_rows(shape, torch::GradMode::is_enabled()) < shape.queries ? AttentionPath::kBlocked
                                                                                    : AttentionPath::kReference;
}

AttentionPlan::AttentionPlan(const Scheme& scheme, const SchemeTraits& traits, Frame frame, const AttentionOptions& options)
    : scheme_(&scheme),
      content_dependent_(traits.content_dependent),
      frame_(std::move(frame)),
      path_(choose_attention(scheme, traits, frame_, options)),
      block_rows_(options.block_rows > 0 ? options.block_rows
                                         : attention_block_rows(logits_shape(frame_, options), torch::GradMode::is_enabled())) {
  for (const Side side : {Side::kQuery, Side::kKey}) {
    Turn& turn = turns_[static_cast<int>(side)] = scheme.turn(side, frame_);
    if (!turn.cos.defined()) continue;
    turn.cos = turn.cos.to(options.dtype);
    turn.sin = turn.sin.to(options.dtype);
  }
  if (path_ == AttentionPath::kReference) bias_ = masked_bias(scheme, frame_, options.dtype);
  if (path_ != AttentionPath::kFused) return;
  terms_.visible = frame_.visible;
  terms_.first_query = frame_.first_query;
  terms_.threads = options.threads;
  const Tensor steps = torch::arange(frame_.key_count(), torch::kFloat64);
  terms_.content.distance_bias = scheme.distance_bias(steps * frame_.queries.spacing);
  if (turns_[0].cos.requires_grad()) return;  // learned frequencies: the kernel's rotation has no gradient by its angles
  terms_.query_turn = turns_[0];
  terms_.key_turn = turns_[1];
}

Tensor AttentionPlan::rotated(const Tensor& x, Side side) const {
  if (!scheme_->rotates()) return x;
  const Turn& turn = turns_[static_cast<int>(side)];
  return turn.cos.defined() ? turn_pairs(x, turn.cos, turn.sin, turn.interleaved) : scheme_->rotate(x, side, frame_);
}

Tensor AttentionPlan::fused(const AttentionInput& in) const {
  FusedTerms terms = terms_;
  Tensor q = in.q, k = in.k;
  if (!terms.query_turn.cos.defined()) {
    q = rotated(q, Side::kQuery);
    k = rotated(k, Side::kKey);
  }
  if (in.temperature.defined()) terms.temperature = in.temperature.squeeze(2);
  terms.sink = in.sink;
  if (content_dependent_) {
    const std::int64_t copies = q.size(1) / k.size(1);
    const Tensor all_k = copies > 1 ? k.repeat_interleave(copies, 1) : k;
    terms.content = scheme_->content_terms({q, all_k, in.v, in.x}, frame_);
    POSENC_CHECK(!terms_.content.distance_bias.defined(), "a bias of positions beside terms of content");
  }
  return fused_attention(q, k, in.v, terms);
}

Tensor AttentionPlan::operator()(const AttentionInput& in) const {
  if (path_ == AttentionPath::kFused) return fused(in);
  Content c{rotated(in.q, Side::kQuery), rotated(in.k, Side::kKey), in.v, in.x};
  if (in.temperature.defined()) c.q = c.q * in.temperature.to(c.q.scalar_type());
  const std::int64_t copies = in.q.size(1) / in.k.size(1);
  if (copies > 1) {
    c.k = c.k.repeat_interleave(copies, 1);
    c.v = c.v.repeat_interleave(copies, 1);
  }
  const Rule rule{scheme_, content_dependent_, frame_};
  return path_ == AttentionPath::kReference ? reference(rule, c, bias_, in.sink) : blocked(rule, c, in.sink, block_rows_);
}

}  // namespace posenc
