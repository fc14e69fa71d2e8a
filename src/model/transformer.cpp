// The pre-norm decoder-only transformer:
//   x = embed(tokens);  for each layer: x += attention(norm(x)); x += mlp(norm(x));  hidden = norm(x)
#include <cmath>

#include "core/error.h"
#include "core/rng.h"
#include "model/language_model.h"
#include "model/layers.h"

namespace posenc {
namespace {

class Transformer : public LanguageModel {
 public:
  Transformer(const ModelConfig& config, std::int64_t vocab, const ModelShape& shape) : config_(config), shape_(shape) {
    info_ = find_registered(schemes(), config.position.name);
    embedding_ = register_parameter("embedding", torch::zeros({vocab, config.d_model}));
    const bool shared = config.position.parameters.value("share_layers", !info_->traits.per_layer);
    for (std::int64_t l = 0; l < (shared ? 1 : config.layers); ++l) {
      schemes_.push_back(register_module(shared ? "position" : "position_" + std::to_string(l),
                                         make_scheme(info_->name, config.position.parameters, shape)));
    }
    for (std::int64_t l = 0; l < config.layers; ++l)
      blocks_.push_back(register_module("layers_" + std::to_string(l), std::make_shared<DecoderBlock>(config)));
    norm_ = register_module("norm", std::make_shared<Norm>(config));
    if (!config.tie_embeddings) head_ = register_parameter("head", torch::zeros({vocab, config.d_model}));
  }

  Tensor hidden(const Tensor& tokens, const Pass& pass) const override {
    const Frame frame = make_frame(tokens.size(1), pass);
    Tensor x = torch::embedding(embedding_, tokens);  // [B, T, C]
    x = dropout(schemes_[0]->embed(x, frame), config_.dropout, pass.dropout);
    std::vector<AttentionPlan> plans;
    for (const auto& scheme : schemes_) {
      plans.emplace_back(*scheme, info_->traits.content_dependent, frame, pass.attention, x.options(), tokens.size(0),
                         shape_.heads, pass.block_rows);
    }
    for (std::size_t l = 0; l < blocks_.size(); ++l) {
      const std::size_t s = schemes_.size() == 1 ? 0 : l;
      x = blocks_[l]->forward(x, *schemes_[s], frame.queries, plans[s], pass.dropout);
    }
    return norm_->forward(x);
  }

  Tensor logits(const Tensor& hidden) const override {
    return torch::linear(hidden, config_.tie_embeddings ? embedding_ : head_);
  }

  void initialise(std::uint64_t seed) override {
    const torch::NoGradGuard no_grad;
    // GPT-2's rule: N(0, 0.02), projections back into the residual stream divided by √(2·layers).
    const double residual = 0.02 / std::sqrt(2.0 * static_cast<double>(config_.layers));
    for (auto& item : named_parameters()) {
      const std::string& name = item.key();
      Tensor& p = item.value();
      if (name.rfind("position", 0) == 0) continue;
      if (p.dim() < 2) {
        p.fill_(name.find("norm") != std::string::npos && name.find("weight") != std::string::npos ? 1.0 : 0.0);
        continue;
      }
      p.normal_(0, is_residual_projection(name) ? residual : 0.02, stream(seed, name));
    }
    for (std::size_t s = 0; s < schemes_.size(); ++s) schemes_[s]->initialise(stream(seed, "position_" + std::to_string(s)));
  }

  std::string refusal(std::int64_t length, const Extension* extension) const override {
    Pass pass;
    pass.extension = extension;
    const double last = make_frame(length, pass).queries.values.max().item<double>();
    const double limit = schemes_[0]->last_position();
    if (last <= limit) return "";
    const auto rows = static_cast<std::int64_t>(limit) + 1;
    return info_->name + " has positions 0 to " + std::to_string(rows - 1) + "; length " + std::to_string(length) + " needs " +
           std::to_string(static_cast<std::int64_t>(std::ceil(last)) + 1) + " positions, the table has " + std::to_string(rows);
  }

 private:
  static torch::Generator stream(std::uint64_t seed, const std::string& name) {
    return torch::make_generator<torch::CPUGeneratorImpl>(derive_seed(seed, "init/" + name));
  }

  Frame make_frame(std::int64_t length, const Pass& pass) const {
    Positions positions{torch::arange(pass.first_position, pass.first_position + length, torch::kFloat64), 1.0};
    if (pass.extension) positions = pass.extension->remap(positions, {shape_.train_length, length, schemes_[0]->last_position()});
    return {positions, positions, 0, shape_.train_length};
  }

  ModelConfig config_;
  ModelShape shape_;
  const SchemeInfo* info_;
  std::vector<std::shared_ptr<Scheme>> schemes_;  ///< one for all layers, or one each
  std::vector<std::shared_ptr<DecoderBlock>> blocks_;
  std::shared_ptr<Norm> norm_;
  Tensor embedding_, head_;
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

Tensor target_nll(const LanguageModel& model, const Tensor& hidden, const Tensor& targets) {
  constexpr std::int64_t kChunkRows = 4096;
  std::vector<Tensor> parts;
  for (std::int64_t begin = 0; begin < hidden.size(0); begin += kChunkRows) {
    const std::int64_t end = std::min(begin + kChunkRows, hidden.size(0));
    const Tensor log_p = torch::log_softmax(model.logits(hidden.slice(0, begin, end)), -1);                       // [n, V]
    parts.push_back(-log_p.gather(1, targets.slice(0, begin, end).unsqueeze(1)).squeeze(1).to(torch::kFloat64));  // [n]
  }
  return torch::cat(parts);
}

}  // namespace posenc
