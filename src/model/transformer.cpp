// The pre-norm decoder-only transformer:
//   x = embed(tokens);  for each layer: x += attention(norm(x)); x += mlp(norm(x));  hidden = norm(x)
// The plan says which scheme, window and sinks each layer has.
#include <ATen/ThreadLocalState.h>

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/parallel.h"
#include "core/rng.h"
#include "model/language_model.h"
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
    if (!config.tie_embeddings) head_ = register_parameter("head", torch::zeros({vocab, config.d_model}));
  }

  Tensor hidden(const Tensor& tokens, const Pass& pass) const override {
    Tensor x = torch::embedding(embedding_, tokens);  // [B, T, token width]
    if (sink_token_.defined()) x = torch::cat({sink_token_.expand({x.size(0), 1, x.size(2)}), x}, 1);
    const Frame frame = make_frame(tokens.size(1), pass);
    x = dropout(schemes_[0].module->embed(x, frame), config_.dropout, pass.dropout);
    const AttentionOptions options{pass.attention, x.scalar_type(), x.size(0), shape_.heads, pass.block_rows, pass.threads};
    std::vector<AttentionPlan> plans;
    std::vector<std::pair<std::size_t, Visibility>> planned;  // layers alike share the mask and bias of one plan
    for (const Layer& layer : layers_) {
      const std::pair key(layer.scheme, layer.visible);
      const auto found = std::find(planned.begin(), planned.end(), key);
      const auto at = static_cast<std::size_t>(found - planned.begin());
      const Used& scheme = schemes_[layer.scheme];
      if (found == planned.end()) {
        planned.push_back(key);
        Frame seen = frame;
        seen.visible = layer.visible;
        plans.emplace_back(*scheme.module, scheme.info->traits, std::move(seen), options);
      }
      x = layer.block->forward(x, *scheme.module, plans[at], pass);
    }
    if (sink_token_.defined()) x = x.slice(1, 1);
    return by_rows(x, x.size(2), pass.threads, [&](const Tensor& rows) { return norm_->forward(rows); });
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
    const std::string undrawn = sampler_refusal(config_.position.sampler, length);
    if (!undrawn.empty()) return undrawn;
    Pass pass;
    pass.extension = extension;
    const double last = make_frame(length, pass, /*farthest=*/true).queries.values.max().item<double>();
    for (const Used& scheme : schemes_) {
      const double limit = scheme.module->last_position();
      if (last <= limit) continue;
      const auto rows = static_cast<std::int64_t>(limit) + 1;
      return scheme.info->name + " has positions 0 to " + std::to_string(rows - 1) + "; length " + std::to_string(length) +
             " needs " + std::to_string(static_cast<std::int64_t>(std::ceil(last)) + 1) + " positions, the table has " +
             std::to_string(rows);
    }
    return "";
  }

  void constrain() const override {
    for (const Used& scheme : schemes_) scheme.module->constrain();
  }

  std::string attention_paths(std::int64_t batch, std::int64_t length, const Pass& pass) const override {
    const torch::AutoGradMode grad_mode(pass.training);
    const AttentionOptions options{pass.attention, embedding_.scalar_type(), batch, shape_.heads, pass.block_rows};
    Frame frame = make_frame(length, pass);
    std::string paths;
    for (const Layer& layer : layers_) {
      const Used& scheme = schemes_[layer.scheme];
      frame.visible = layer.visible;
      const std::string name = attention_path_name(choose_attention(*scheme.module, scheme.info->traits, frame, options));
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

  /// `farthest`: positions as far out as any draw may have them.
  Frame make_frame(std::int64_t length, const Pass& pass, bool farthest = false) const {
    const SamplerConfig& sampler = config_.position.sampler;
    const SamplerUse use = pass.training ? SamplerUse::kTraining : SamplerUse::kEvaluation;
    std::vector<double> drawn = sample_positions(sampler, length, use, pass.position_seed);
    if (farthest && sampler.method == "randomized") drawn.back() = static_cast<double>(*sampler.max - 1);
    bool even = evenly_spaced(sampler, use);
    for (double& position : drawn) position += static_cast<double>(pass.first_position + (sink_token_.defined() ? 1 : 0));
    if (sink_token_.defined()) {
      even = even && drawn.front() == 1;
      drawn.insert(drawn.begin(), 0.0);
    }
    Positions positions{torch::tensor(drawn, torch::kFloat64), even ? 1.0 : 0.0};
    if (pass.extension) positions = pass.extension->remap(positions, {shape_.train_length, length, last_position()});
    return {positions, positions, 0, shape_.train_length};
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
  std::shared_ptr<Norm> norm_;
  Tensor embedding_, head_, sink_token_;
};

}  // namespace

std::int64_t LanguageModel::parameter_count() const {
  std::int64_t count = 0;
  for (const Tensor& p : parameters()) count += p.numel();
  return count;
}

std::shared_ptr<LanguageModel> make_model(const ModelConfig& config, std::int64_t vocab, std::int64_t train_length,
                                          torch::ScalarType dtype) {
  auto model = std::make_shared<Transformer>(config, vocab, config.shape(train_length));
  model->to(dtype);
  return model;
}

Tensor target_nll(const LanguageModel& model, const Tensor& hidden, const Tensor& targets, int threads) {
  constexpr std::int64_t kChunkRows = 4096;
  std::vector<Tensor> parts(static_cast<std::size_t>((hidden.size(0) + kChunkRows - 1) / kChunkRows));
  const at::ThreadLocalState here;
  parallel_for(static_cast<std::int64_t>(parts.size()), threads, [&](std::int64_t i) {
    const at::ThreadLocalStateGuard as_here(here);
    at::set_num_threads(1);
    const std::int64_t begin = i * kChunkRows, end = std::min(begin + kChunkRows, hidden.size(0));
    const Tensor log_p = torch::log_softmax(model.logits(hidden.slice(0, begin, end)), -1);  // [rows, V]
    parts[static_cast<std::size_t>(i)] =
        -log_p.gather(1, targets.slice(0, begin, end).unsqueeze(1)).squeeze(1).to(torch::kFloat64);  // [rows]
  });
  return torch::cat(parts);
}

}  // namespace posenc
