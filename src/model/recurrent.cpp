// Language models that need no positions because they read one token after the other: stacked LSTMs (Hochreiter, Schmidhuber 1997)
// or GRUs (Cho et al. 2014, arXiv:1406.1078), each layer as wide as the embedding. The state is zero at the start of a window, or
// what the cache holds.
#include <cmath>

#include "core/rng.h"
#include "model/affine.h"
#include "model/kinds.h"
#include "model/layers.h"

namespace posenc {
namespace {

class Recurrent : public LanguageModel {
 public:
  Recurrent(const ModelConfig& config, std::int64_t vocab) : config_(config), gates_(config.kind == "lstm" ? 4 : 3) {
    const std::int64_t width = config.d_model;
    embedding_ = register_parameter("embedding", torch::zeros({vocab, width}));
    for (std::int64_t l = 0; l < config.layers; ++l) {
      const std::string name = "layers_" + std::to_string(l);
      layers_.push_back({register_parameter(name + "_input_weight", torch::zeros({gates_ * width, width})),
                         register_parameter(name + "_state_weight", torch::zeros({gates_ * width, width})),
                         register_parameter(name + "_input_bias", torch::zeros({gates_ * width})),
                         register_parameter(name + "_state_bias", torch::zeros({gates_ * width}))});
    }
    if (!config.tie_embeddings) head_ = register_parameter("head", torch::zeros({vocab, width}));
  }

  Tensor hidden(const Tensor& tokens, const Pass& pass) const override {
    Tensor x = dropout(torch::embedding(embedding_, tokens), config_.dropout, pass.dropout);  // [B, T, C]
    if (pass.cache) pass.cache->layers.resize(layers_.size());
    for (std::size_t l = 0; l < layers_.size(); ++l) {
      Tensor none, *state = pass.cache ? &pass.cache->layers[l].state : &none;
      x = dropout(step(layers_[l], x, *state), config_.dropout, pass.dropout);
    }
    if (pass.cache) pass.cache->append(tokens);
    return x;
  }

  Tensor logits(const Tensor& hidden) const override { return affine(hidden, head_.defined() ? head_ : embedding_); }

  /// Uniform within ±1/√C; the biases of an LSTM's forget gates are 1 (Jozefowicz et al. 2015), all others 0.
  void initialise(std::uint64_t seed) override {
    const torch::NoGradGuard no_grad;
    const double bound = 1 / std::sqrt(static_cast<double>(config_.d_model));
    for (auto& item : named_parameters()) {
      Tensor& p = item.value();
      if (p.dim() < 2) p.zero_();
      else p.uniform_(-bound, bound, torch::make_generator<torch::CPUGeneratorImpl>(derive_seed(seed, "init/" + item.key())));
    }
    if (config_.kind != "lstm") return;
    for (auto& layer : layers_)
      layer[2].slice(0, config_.d_model, 2 * config_.d_model).fill_(1);  // gates: input, forget, cell, output
  }

  std::string refusal(std::int64_t, const Extension*) const override { return ""; }

 private:
  /// One layer over x [B, T, C] → [B, T, C]; `state` [1 or 2, B, C] from and to: h, and c of an LSTM. Undefined: zeros.
  Tensor step(const std::vector<Tensor>& layer, const Tensor& x, Tensor& state) const {
    const std::int64_t kept = config_.kind == "lstm" ? 2 : 1;
    const Tensor from = state.defined() ? state : torch::zeros({kept, x.size(0), config_.d_model}, x.options());
    if (kept == 1) {
      const auto [y, h] = torch::gru(x, from, layer, /*has_biases=*/true, 1, 0.0, /*train=*/false, /*bidirectional=*/false,
                                     /*batch_first=*/true);
      state = h;
      return y;
    }
    const auto [y, h, c] = torch::lstm(x, {from.slice(0, 0, 1).contiguous(), from.slice(0, 1, 2).contiguous()}, layer, true, 1,
                                       0.0, false, false, true);
    state = torch::cat({h, c});
    return y;
  }

  ModelConfig config_;
  std::int64_t gates_;
  std::vector<std::vector<Tensor>> layers_;  ///< input and state weights [gates·C, C], their biases [gates·C]
  Tensor embedding_, head_;
};

}  // namespace

std::shared_ptr<LanguageModel> make_recurrent(const ModelConfig& config, std::int64_t vocab) {
  return std::make_shared<Recurrent>(config, vocab);
}

}  // namespace posenc
