// The pre-norm decoder-only transformer:
//   x = embed(tokens);  for each layer: x += attention(norm(x)); x += mlp(norm(x));  hidden = norm(x)
// The plan says which scheme, window and sinks each layer has.
#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/rng.h"
#include "model/kinds.h"
#include "model/layers.h"

namespace posenc {
namespace {

/// One layer: its block and the scheme it uses (several layers may share one).
struct Layer {
  std::shared_ptr<DecoderBlock> block;
  std::size_t scheme;
  Visibility visible;
};

class Transformer : public LanguageModel {
 public:
  Transformer(const ModelConfig& config, std::int64_t vocab, const ModelShape& shape) : config_(config), shape_(shape) {
    config_.position.sampler.resolve(shape.train_length);
    const std::vector<LayerPosition> plan = config.position.plan(config.layers);
    const auto scheme_of_layer = add_schemes(plan);
    const std::int64_t token_width = schemes_[0].module->token_width() > 0 ? schemes_[0].module->token_width() : config.d_model;
    embedding_ = register_parameter("embedding", torch::zeros({vocab, token_width}));
    for (std::size_t l = 0; l < plan.size(); ++l) {
      const LayerAxes& axes = plan[l].axes;
      auto block = std::make_shared<DecoderBlock>(config, axes, shape.train_length);
      layers_.push_back({register_module("layers_" + std::to_string(l), block),
                         scheme_of_layer[l],
                         {axes.window.value_or(0), axes.chunk.value_or(0), axes.sinks.keep_first}});
    }
    norm_ = register_module("norm", std::make_shared<Norm>(config));
    if (plan[0].axes.sinks.type == "token") sink_token_ = register_parameter("sink_token", torch::zeros({token_width}));
    if (config.extension) extension_ = make_extension(*config.extension);
    if (!config.tie_embeddings) head_ = register_parameter("head", torch::zeros({vocab, config.d_model}));
  }

  Tensor hidden(const Tensor& tokens, const Pass& pass) const override {
    const std::int64_t before = pass.cache ? pass.cache->length() : 0, length = before + tokens.size(1);
    const Extension* extension = extension_of(pass);
    const std::int64_t piece = extension ? extension->piece(lengths(std::max(length, pass.window))) : 0;
    if (pass.cache) pass.cache->append(tokens);
    if (piece == 0 || length <= piece) return whole(tokens, before, pass);
    Pass alone = pass;
    alone.cache = nullptr;
    const Tensor seen = pass.cache ? pass.cache->tokens.slice(1, -std::max(tokens.size(1), piece)) : tokens;
    std::vector<Tensor> pieces;
    for (std::int64_t end = seen.size(1); end > 0; end -= piece)
      pieces.insert(pieces.begin(), whole(seen.slice(1, std::max<std::int64_t>(0, end - piece), end), 0, alone));
    return torch::cat(pieces, 1).slice(1, -tokens.size(1));
  }

  Tensor logits(const Tensor& hidden) const override {
    if (!config_.tie_embeddings) return affine(hidden, head_);
    return affine(hidden.slice(-1, 0, embedding_.size(1)), embedding_);
  }

  void initialise(std::uint64_t seed) override {
    const torch::NoGradGuard no_grad;
    // GPT-2's rule: N(0, 0.02), projections back into the residual stream divided by √(2·layers).
    const double residual = 0.02 / std::sqrt(2.0 * static_cast<double>(config_.layers));
    for (auto& item : named_parameters()) {
      const std::string& name = item.key();
      Tensor& p = item.value();
      if (name.rfind("position", 0) == 0) continue;
      if (p.dim() < 2 && name != "sink_token") {
        p.fill_(name.find("norm") != std::string::npos && name.find("weight") != std::string::npos ? 1.0 : 0.0);
        continue;
      }
      p.normal_(0, is_residual_projection(name) ? residual : 0.02, stream(seed, name));
    }
    for (const Layer& layer : layers_) layer.block->initialise_axes();
    for (std::size_t s = 0; s < schemes_.size(); ++s) {
      schemes_[s].module->initialise(stream(seed, "position_" + std::to_string(s)));
      if (schemes_[s].first) schemes_[s].module->initialise_shared(stream(seed, "position_shared_" + std::to_string(s)));
    }
  }

  std::string refusal(std::int64_t length, const Extension* extension) const override {
    Pass pass;
    pass.extension = extension;
    const Extension* used = extension_of(pass);
    const std::int64_t piece = used ? used->piece(lengths(length)) : 0;
    if (piece > 0 && piece < length) return refusal(piece, extension);
    const std::string undrawn = sampler_refusal(config_.position.sampler, length);
    if (!undrawn.empty()) return undrawn;
    const Frame frame = make_frame(length, pass, /*farthest=*/true);
    const double last = frame.queries.values.max().item<double>();
    for (const Used& scheme : schemes_) {
      const double limit = scheme.module->last_position();
      if (last <= limit) continue;
      const auto rows = static_cast<std::int64_t>(limit) + 1;
      return scheme.info->name + " has positions 0 to " + std::to_string(rows - 1) + "; length " + std::to_string(length) +
             " needs " + std::to_string(static_cast<std::int64_t>(std::ceil(last)) + 1) + " positions, the table has " +
             std::to_string(rows);
    }
    if (!used) return "";
    const Frame end = frame.rows(frame.query_count() - 1, frame.query_count());
    for (const Layer& layer : layers_) schemes_[layer.scheme].module->turn(Side::kQuery, frame_of(layer, end, length, pass));
    return "";
  }

  void constrain() const override {
    for (const Used& scheme : schemes_) scheme.module->constrain();
  }

  std::string attention_paths(std::int64_t batch, std::int64_t length, const Pass& pass) const override {
    const torch::AutoGradMode grad_mode(pass.training);
    const AttentionOptions options{pass.attention, embedding_.scalar_type(), batch, shape_.heads, pass.block_rows};
    const Frame frame = make_frame(length, pass);
    std::string paths;
    for (const Layer& layer : layers_) {
      const Used& scheme = schemes_[layer.scheme];
      const Frame seen = frame_of(layer, frame, length, pass);
      const std::string name = attention_path_name(choose_attention(*scheme.module, scheme.info->traits, seen, options));
      if (paths.find(name) == std::string::npos) paths += (paths.empty() ? "" : ", ") + name;
    }
    return paths;
  }

  std::int64_t position_draws() const override { return evaluation_draws(config_.position.sampler); }

 private:
  /// A scheme of one layer, or of all layers with the same parameters.
  struct Used {
    std::shared_ptr<Scheme> module;
    const SchemeInfo* info;
    bool first;  ///< of its kind: holds what its likes share
  };

  /// Builds the schemes of the plan; returns the index into schemes_ of each layer.
  std::vector<std::size_t> add_schemes(const std::vector<LayerPosition>& plan) {
    const auto alike = [](const LayerPosition& a, const LayerPosition& b) {
      return a.name == b.name && a.parameters == b.parameters;
    };
    const bool uniform = std::all_of(plan.begin(), plan.end(), [&](const LayerPosition& p) { return alike(p, plan[0]); });
    std::vector<std::size_t> of_layer;
    for (std::size_t l = 0; l < plan.size(); ++l) {
      const SchemeInfo& info = scheme_of(plan[l]);
      const bool shared = plan[l].parameters.value("share_layers", !info.traits.per_layer);
      std::size_t before = 0;
      while (!alike(plan[before], plan[l])) ++before;  // the first layer of its kind, possibly l itself
      if (shared && before < l) {
        of_layer.push_back(of_layer[before]);
        continue;
      }
      const std::string name = shared && uniform ? "position" : "position_" + std::to_string(l);
      auto module = register_module(name, make_scheme(plan[l].name, plan[l].parameters, shape_));
      module->share(before == l ? module->register_shared() : schemes_[of_layer[before]].module->shared());
      of_layer.push_back(schemes_.size());
      schemes_.push_back({std::move(module), &info, before == l});
    }
    return of_layer;
  }

  static torch::Generator stream(std::uint64_t seed, const std::string& name) {
    return torch::make_generator<torch::CPUGeneratorImpl>(derive_seed(seed, "init/" + name));
  }

  /// All tokens at once: those of the cache, `before` in number, and `tokens` → hidden of `tokens`.
  Tensor whole(const Tensor& tokens, std::int64_t before, const Pass& pass) const {
    const std::int64_t length = before + tokens.size(1);
    Tensor x = torch::embedding(embedding_, tokens);  // [B, T, token width]
    const bool with_sink = sink_token_.defined() && before == 0;
    if (with_sink) x = torch::cat({sink_token_.expand({x.size(0), 1, x.size(2)}), x}, 1);
    Frame frame = make_frame(length, pass);
    if (before > 0) frame = frame.rows(frame.key_count() - tokens.size(1), frame.key_count());
    x = dropout(schemes_[0].module->embed(x, frame), config_.dropout, pass.dropout);
    const AttentionOptions options{pass.attention, x.scalar_type(), x.size(0), shape_.heads, pass.block_rows, pass.threads};
    if (pass.cache) pass.cache->layers.resize(layers_.size());
    std::vector<AttentionPlan> plans;
    std::vector<std::pair<std::size_t, Visibility>> planned;  // layers alike share the mask and bias of one plan
    for (std::size_t l = 0; l < layers_.size(); ++l) {
      const Layer& layer = layers_[l];
      const std::pair key(layer.scheme, layer.visible);
      const auto found = std::find(planned.begin(), planned.end(), key);
      const auto at = static_cast<std::size_t>(found - planned.begin());
      const Used& scheme = schemes_[layer.scheme];
      if (found == planned.end()) {
        planned.push_back(key);
        plans.emplace_back(*scheme.module, scheme.info->traits, frame_of(layer, frame, length, pass), options);
      }
      x = layer.block->forward(x, *scheme.module, plans[at], pass, pass.cache ? &pass.cache->layers[l] : nullptr);
    }
    if (with_sink) x = x.slice(1, 1);
    return by_rows(x, x.size(2), pass.threads, [&](const Tensor& rows) { return norm_->forward(rows); });
  }

  const Extension* extension_of(const Pass& pass) const { return pass.extension ? pass.extension : extension_.get(); }

  Lengths lengths(std::int64_t window) const { return {shape_.train_length, window, last_position()}; }

  /// The frame as the layer and the extension see it.
  Frame frame_of(const Layer& layer, Frame frame, std::int64_t length, const Pass& pass) const {
    frame.visible = layer.visible;
    const Extension* extension = extension_of(pass);
    return extension ? extension->apply(std::move(frame), lengths(std::max(length, pass.window))) : frame;
  }

  /// The first `length` tokens of a window of pass.window or more. `farthest`: positions as far out as any draw may have them.
  Frame make_frame(std::int64_t length, const Pass& pass, bool farthest = false) const {
    const SamplerConfig& sampler = config_.position.sampler;
    const SamplerUse use = pass.training ? SamplerUse::kTraining : SamplerUse::kEvaluation;
    const std::int64_t window = std::max(length, pass.window);
    std::vector<double> drawn = sample_positions(sampler, window, use, pass.position_seed);
    if (farthest && sampler.method == "randomized") drawn.back() = static_cast<double>(*sampler.max - 1);
    bool even = evenly_spaced(sampler, use);
    for (double& position : drawn) position += static_cast<double>(pass.first_position + (sink_token_.defined() ? 1 : 0));
    if (sink_token_.defined()) {
      even = even && drawn.front() == 1;
      drawn.insert(drawn.begin(), 0.0);
    }
    Positions positions{torch::tensor(drawn, torch::kFloat64), even ? 1.0 : 0.0};
    if (const Extension* extension = extension_of(pass)) positions = extension->remap(positions, lengths(window));
    const double end = positions.values.max().item<double>();
    positions = positions.slice(0, length + (sink_token_.defined() ? 1 : 0));
    Frame frame{positions, positions, 0, shape_.train_length};
    if (window > length) frame.window_end = end;
    return frame;
  }

  double last_position() const {
    double last = std::numeric_limits<double>::infinity();
    for (const Used& scheme : schemes_) last = std::min(last, scheme.module->last_position());
    return last;
  }

  ModelConfig config_;
  ModelShape shape_;
  std::vector<Used> schemes_;
  std::vector<Layer> layers_;
  std::unique_ptr<Extension> extension_;  ///< the model's own, or none
  std::shared_ptr<Norm> norm_;
  Tensor embedding_, head_, sink_token_;
};

}  // namespace

std::shared_ptr<LanguageModel> make_transformer(const ModelConfig& config, std::int64_t vocab, const ModelShape& shape) {
  return std::make_shared<Transformer>(config, vocab, shape);
}

}  // namespace posenc
