#include "model/attention.h"

#include <algorithm>
#include <cmath>
#include <tuple>

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

/// What a layer attends with, every head with keys of its own. Far: the same q and k turned by Frame::beyond, else undefined.
struct Turned {
  Content content;
  Tensor far_q, far_k;
};

/// q·kᵀ/√D + bias, [B, H, Q, K].
Tensor logits(const Tensor& q, const Tensor& k, const Tensor& bias) {
  const auto batch = q.size(0), heads = q.size(1), queries = q.size(2), width = q.size(3), keys = k.size(2);
  const double scale = 1 / std::sqrt(static_cast<double>(width));
  const Tensor base = bias.unsqueeze(0).expand({batch, heads, queries, keys}).reshape({batch * heads, queries, keys});
  return torch::baddbmm(base, q.reshape({batch * heads, queries, width}), k.reshape({batch * heads, keys, width}).transpose(1, 2),
                        1, scale)
      .view({batch, heads, queries, keys});
}

Tensor reference(const Rule& rule, const Turned& in, const MaskedBias& bias, const Tensor& sink) {
  const Content& c = in.content;
  const auto batch = c.q.size(0), heads = c.q.size(1), queries = c.q.size(2), keys = c.k.size(2);
  Tensor s = logits(c.q, c.k, bias.near);  // [B, H, Q, K]
  if (rule.frame.far) s = torch::where(rule.frame.is_far(), logits(in.far_q, in.far_k, bias.far), s);
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

  /// Of the inputs, these come first and are cut off the graph; parameters are leaves already.
  std::size_t contents() const { return rule.frame.far ? 6 : 4; }

  /// inputs: q, k, v, x, far q and k if any, the sink if there is one, then the scheme's parameters.
  Tensor operator()(at::TensorList inputs) const {
    Turned turned{{inputs[0], inputs[1], inputs[2], inputs[3]}, {}, {}};
    if (rule.frame.far) std::tie(turned.far_q, turned.far_k) = std::tuple(inputs[4], inputs[5]);
    return reference(rule, turned, MaskedBias(*rule.scheme, rule.frame, inputs[0].scalar_type()),
                     has_sink ? inputs[contents()] : Tensor());
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
    for (std::size_t i = 0; i < saved.size(); ++i) {
      inputs.push_back(i < block->contents() && saved[i].requires_grad() ? saved[i].detach().requires_grad_() : saved[i]);
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

Tensor blocked(const Rule& rule, const Turned& in, const Tensor& sink, std::int64_t rows) {
  const Content& c = in.content;
  const Frame& frame = rule.frame;
  std::vector<Tensor> blocks;
  const std::vector<Tensor> parameters = rule.scheme->used_parameters();
  for (std::int64_t begin = 0; begin < frame.query_count(); begin += rows) {
    const std::int64_t end = std::min(begin + rows, frame.query_count());
    Frame part = frame.rows(begin, end);
    const std::int64_t keys = part.key_count();
    std::vector<Tensor> inputs = {c.q.slice(2, begin, end), c.k.slice(2, 0, keys), c.v.slice(2, 0, keys), c.x.slice(1, 0, keys)};
    if (frame.far) inputs.insert(inputs.end(), {in.far_q.slice(2, begin, end), in.far_k.slice(2, 0, keys)});
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

MaskedBias::MaskedBias(const Scheme& scheme, const Frame& frame, torch::ScalarType dtype)
    : near(masked_bias(scheme, frame, dtype)) {
  if (frame.far) far = masked_bias(scheme, frame.beyond(), dtype);
}

std::int64_t attention_block_rows(const LogitsShape& shape, bool training) {
  const std::int64_t limit = training ? kTrainingLogitsBytes : kInferenceLogitsBytes;
  return std::clamp<std::int64_t>(limit / shape.row_bytes(), 1, shape.queries);
}

bool fuses(const Scheme& scheme, const SchemeTraits& traits, const Frame& frame, torch::ScalarType dtype) {
  if (dtype != torch::kFloat32 || !traits.softmax || frame.far) return false;
  if (traits.content_dependent && !scheme.has_content_terms()) return false;
  if (scheme.dense_bias()) return frame.queries.spacing > 0 && scheme.has_piecewise_bias();
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

Turns::Turns(const Scheme& scheme, const Frame& frame, torch::ScalarType dtype) {
  for (Turn* turn : {&query, &key}) {
    *turn = scheme.turn(turn == &query ? Side::kQuery : Side::kKey, frame);
    if (!turn->cos.defined()) continue;
    turn->cos = turn->cos.to(dtype);
    turn->sin = turn->sin.to(dtype);
  }
}

AttentionPlan::AttentionPlan(const Scheme& scheme, const SchemeTraits& traits, Frame frame, const AttentionOptions& options)
    : scheme_(&scheme),
      traits_(traits),
      frame_(std::move(frame)),
      options_(options),
      path_(choose_attention(scheme, traits, frame_, options)) {
  if (frame_.stepwise && frame_.query_count() > 1) return;  // every query has a plan of its own
  turns_ = Turns(scheme, frame_, options.dtype);
  if (frame_.far) far_turns_ = Turns(scheme, frame_.beyond(), options.dtype);
  if (path_ == AttentionPath::kReference) bias_ = MaskedBias(scheme, frame_, options.dtype);
  if (path_ != AttentionPath::kFused) return;
  terms_.visible = frame_.visible;
  terms_.first_query = frame_.first_query;
  terms_.threads = options.threads;
  const Tensor steps = torch::arange(frame_.key_count(), torch::kFloat64);
  if (scheme.has_piecewise_bias()) terms_.piecewise = scheme.piecewise_bias(frame_);
  else terms_.content.distance_bias = scheme.distance_bias(steps * frame_.queries.spacing);
  if (turns_.query.cos.requires_grad()) return;  // learned frequencies: the kernel's rotation has no gradient by its angles
  terms_.query_turn = turns_.query;
  terms_.key_turn = turns_.key;
}

Tensor AttentionPlan::rotated(const Tensor& x, Side side, const Turns& turns, const Frame& frame) const {
  if (!scheme_->rotates()) return x;
  const Turn& turn = side == Side::kQuery ? turns.query : turns.key;
  return turn.cos.defined() ? turn_pairs(x, turn.cos, turn.sin, turn.interleaved) : scheme_->rotate(x, side, frame);
}

Tensor AttentionPlan::fused(const AttentionInput& in) const {
  FusedTerms terms = terms_;
  Tensor q = in.q, k = in.k;
  if (!terms.query_turn.cos.defined()) {
    q = rotated(q, Side::kQuery, turns_, frame_);
    k = rotated(k, Side::kKey, turns_, frame_);
  }
  if (in.temperature.defined()) terms.temperature = in.temperature.squeeze(2);
  terms.sink = in.sink;
  if (traits_.content_dependent) {
    const std::int64_t copies = q.size(1) / k.size(1);
    const Tensor all_k = copies > 1 ? k.repeat_interleave(copies, 1) : k;
    terms.content = scheme_->content_terms({q, all_k, in.v, in.x}, frame_);
    POSENC_CHECK(!terms_.content.distance_bias.defined(), "a bias of positions beside terms of content");
  }
  return fused_attention(q, k, in.v, terms);
}

/// Queries of the training length share their frequencies; each later one has its own.
Tensor AttentionPlan::step_by_step(const AttentionInput& in) const {
  std::vector<Tensor> rows;
  for (std::int64_t begin = 0, end; begin < frame_.query_count(); begin = end) {
    end = std::min(std::max(begin + 1, frame_.train_length - frame_.first_query), frame_.query_count());
    Frame part = frame_.rows(begin, end);
    part.stepwise = false;
    const std::int64_t keys = part.key_count();
    const auto temperature = in.temperature.defined() ? in.temperature.slice(1, begin, end) : in.temperature;
    rows.push_back(AttentionPlan(*scheme_, traits_, std::move(part),
                                 options_)({in.q.slice(2, begin, end), in.k.slice(2, 0, keys), in.v.slice(2, 0, keys),
                                            in.x.slice(1, 0, keys), temperature, in.sink}));
  }
  return torch::cat(rows, 2);
}

Tensor AttentionPlan::operator()(const AttentionInput& in) const {
  if (frame_.stepwise && frame_.query_count() > 1) return step_by_step(in);
  if (path_ == AttentionPath::kFused) return fused(in);
  const std::int64_t copies = in.q.size(1) / in.k.size(1);
  const auto query = [&](const Turns& turns, const Frame& frame) {
    const Tensor q = rotated(in.q, Side::kQuery, turns, frame);
    return in.temperature.defined() ? q * in.temperature.to(q.scalar_type()) : q;
  };
  const auto repeated = [&](const Tensor& x) { return copies > 1 ? x.repeat_interleave(copies, 1) : x; };
  Turned turned{{query(turns_, frame_), repeated(rotated(in.k, Side::kKey, turns_, frame_)), repeated(in.v), in.x}, {}, {}};
  if (frame_.far) {
    const Frame beyond = frame_.beyond();
    turned.far_q = query(far_turns_, beyond);
    turned.far_k = repeated(rotated(in.k, Side::kKey, far_turns_, beyond));
  }
  const Rule rule{scheme_, traits_.content_dependent, frame_};
  if (path_ == AttentionPath::kReference) return reference(rule, turned, bias_, in.sink);
  const LogitsShape shape = logits_shape(frame_, options_);
  const std::int64_t rows =
      options_.block_rows > 0 ? options_.block_rows : attention_block_rows(shape, torch::GradMode::is_enabled());
  return blocked(rule, turned, in.sink, rows);
}

}  // namespace posenc
