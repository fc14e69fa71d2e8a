// A language model that needs no positions because every tap of its filters is one: gated causal convolutions (Dauphin et al. 2017,
// arXiv:1612.08083) with dilations 1, 2, 4, … (Bai et al. 2018, arXiv:1803.01271), pre-norm and residual.
//   x += (W * norm(x) + b) ⊙ σ(V * norm(x) + c)
// A token further back than the receptive field 1 + Σ (k−1)·dilation cannot be seen.
#include <algorithm>
#include <cmath>

#include "core/rng.h"
#include "model/affine.h"
#include "model/kinds.h"
#include "model/layers.h"

namespace posenc {
namespace {

class Convolutional : public LanguageModel {
 public:
  Convolutional(const ModelConfig& config, std::int64_t vocab) : config_(config) {
    const std::int64_t width = config.d_model;
    embedding_ = register_parameter("embedding", torch::zeros({vocab, width}));
    for (std::int64_t l = 0; l < config.layers; ++l) {
      const std::string name = "layers_" + std::to_string(l);
      layers_.push_back({register_module(name + "_norm", std::make_shared<Norm>(config)),
                         register_module(name, std::make_shared<Projection>(config.kernel * width, 2 * width, true)),
                         config.dilation(l)});
    }
    norm_ = register_module("norm", std::make_shared<Norm>(config));
    if (!config.tie_embeddings) head_ = register_parameter("head", torch::zeros({vocab, width}));
  }

  Tensor hidden(const Tensor& tokens, const Pass& pass) const override {
    constexpr std::int64_t kPiece = 2048;  // bounds the taps of a long window
    if (torch::GradMode::is_enabled() || tokens.size(1) <= kPiece) return piece(tokens, pass);
    KvCache local;
    Pass part = pass;
    if (!part.cache) part.cache = &local;
    std::vector<Tensor> pieces;
    for (std::int64_t begin = 0; begin < tokens.size(1); begin += kPiece)
      pieces.push_back(piece(tokens.slice(1, begin, std::min(begin + kPiece, tokens.size(1))), part));
    return torch::cat(pieces, 1);
  }

  Tensor logits(const Tensor& hidden) const override { return affine(hidden, head_.defined() ? head_ : embedding_); }

  /// N(0, 0.02) for embeddings and N(0, 1/fan-in) for filters; biases 0, gains 1.
  void initialise(std::uint64_t seed) override {
    const torch::NoGradGuard no_grad;
    for (auto& item : named_parameters()) {
      const std::string& name = item.key();
      Tensor& p = item.value();
      if (p.dim() < 2) {
        p.fill_(name.find("norm") != std::string::npos && name.find("weight") != std::string::npos ? 1.0 : 0.0);
        continue;
      }
      const double deviation = name.rfind("layers_", 0) == 0 ? 1 / std::sqrt(static_cast<double>(p.size(1))) : 0.02;
      p.normal_(0, deviation, torch::make_generator<torch::CPUGeneratorImpl>(derive_seed(seed, "init/" + name)));
    }
  }

  std::string refusal(std::int64_t, const Extension*) const override { return ""; }

 private:
  struct Layer {
    std::shared_ptr<Norm> norm;
    std::shared_ptr<Projection> filters;  ///< [2C, k·C], taps from the oldest on
    std::int64_t dilation;
  };

  Tensor piece(const Tensor& tokens, const Pass& pass) const {
    Tensor x = dropout(torch::embedding(embedding_, tokens), config_.dropout, pass.dropout);  // [B, T, C]
    if (pass.cache) pass.cache->layers.resize(layers_.size());
    for (std::size_t l = 0; l < layers_.size(); ++l) {
      Tensor none, *before = pass.cache ? &pass.cache->layers[l].state : &none;
      x = x + dropout(gated(layers_[l], layers_[l].norm->forward(x), *before), config_.dropout, pass.dropout);
    }
    if (pass.cache) pass.cache->append(tokens);
    return norm_->forward(x);
  }

  /// x [B, T, C] → [B, T, C]. `before` [B, (k−1)·dilation, C]: the inputs that came before, from and to; undefined: zeros.
  Tensor gated(const Layer& layer, const Tensor& x, Tensor& before) const {
    const std::int64_t reach = (config_.kernel - 1) * layer.dilation, length = x.size(1);
    const Tensor past = before.defined() ? before : torch::zeros({x.size(0), reach, x.size(2)}, x.options());
    const Tensor all = torch::cat({past, x}, 1);
    before = all.slice(1, length);
    std::vector<Tensor> taps;
    for (std::int64_t k = 0; k < config_.kernel; ++k)
      taps.push_back(all.slice(1, k * layer.dilation, k * layer.dilation + length));
    const std::vector<Tensor> halves = layer.filters->forward(torch::cat(taps, 2)).chunk(2, 2);  // [B, T, C] each
    return halves[0] * torch::sigmoid(halves[1]);
  }

  ModelConfig config_;
  std::vector<Layer> layers_;
  std::shared_ptr<Norm> norm_;
  Tensor embedding_, head_;
};

}  // namespace

std::shared_ptr<LanguageModel> make_convolutional(const ModelConfig& config, std::int64_t vocab) {
  return std::make_shared<Convolutional>(config, vocab);
}

}  // namespace posenc
