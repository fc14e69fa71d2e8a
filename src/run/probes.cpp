#include "run/probes.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/rng.h"

namespace posenc {
namespace {

constexpr std::int64_t kVocab = 64, kLength = 24;

/// Weights of such a size that attention is far from uniform and far from a choice of one.
void fill(LanguageModel& model, std::uint64_t seed) {
  const torch::NoGradGuard no_grad;
  for (auto& item : model.named_parameters()) {
    Tensor& p = item.value();
    const auto generator = torch::make_generator<torch::CPUGeneratorImpl>(derive_seed(seed, item.key()));
    if (item.key().rfind("position", 0) == 0) continue;  // as the scheme initialises it
    if (p.dim() == 2) p.normal_(0, item.key() == "embedding" ? 1 : 1.2 / std::sqrt(static_cast<double>(p.size(1))), generator);
  }
}

std::shared_ptr<LanguageModel> untrained(ModelConfig config, std::int64_t layers, std::int64_t train_length) {
  config.layers = layers;
  auto model = make_model(config, kVocab, train_length, torch::kFloat64);
  model->initialise(1);
  fill(*model, 1);
  return model;
}

ModelConfig without_positions(ModelConfig config) {
  config.position = PositionConfig{};
  return config;
}

Tensor drawn_tokens() {
  return torch::randint(kVocab, {1, kLength}, torch::make_generator<torch::CPUGeneratorImpl>(derive_seed(1, "tokens")),
                        torch::kInt64);
}

/// The tokens with all but the last in another order.
Tensor reordered(const Tensor& tokens) {
  const Permutation order(static_cast<std::uint64_t>(kLength - 1), 3);
  Tensor other = tokens.clone();
  for (std::int64_t i = 0; i + 1 < kLength; ++i)
    other[0][i] = tokens[0][static_cast<std::int64_t>(order(static_cast<std::uint64_t>(i)))];
  return other;
}

double relative_change(const Tensor& a, const Tensor& b) { return ((a - b).abs().max() / a.abs().max()).item<double>(); }

double change_by_order(const LanguageModel& model) {
  const torch::NoGradGuard no_grad;
  const Tensor tokens = drawn_tokens();
  return relative_change(model.hidden(tokens, {})[0][-1], model.hidden(reordered(tokens), {})[0][-1]);
}

double change_by_shift(const LanguageModel& model) {
  const torch::NoGradGuard no_grad;
  Pass shifted;
  shifted.first_position = 7;
  return relative_change(model.hidden(drawn_tokens(), {}), model.hidden(drawn_tokens(), shifted));
}

/// Two layers of one-headed attention of every token to every token, no mask, no positions.
double change_by_order_unmasked() {
  const std::int64_t width = 32;
  const auto generator = torch::make_generator<torch::CPUGeneratorImpl>(derive_seed(1, "unmasked"));
  const auto weights = [&](std::int64_t rows) {
    return torch::empty({rows, width}, torch::kFloat64).normal_(0, 1 / std::sqrt(static_cast<double>(width)), generator);
  };
  const Tensor embedding = weights(kVocab) * std::sqrt(static_cast<double>(width));
  std::vector<std::array<Tensor, 3>> layers;
  for (int l = 0; l < 2; ++l) layers.push_back({weights(width), weights(width), weights(width)});
  const auto last = [&](const Tensor& tokens) {
    Tensor x = torch::embedding(embedding, tokens[0]);  // [T, C]
    for (const auto& [q, k, v] : layers) {
      const Tensor scores = x.matmul(q.t()).matmul(x.matmul(k.t()).t()) / std::sqrt(static_cast<double>(width));
      x = x + torch::softmax(scores, -1).matmul(x.matmul(v.t()));
    }
    return x[-1];
  };
  return relative_change(last(drawn_tokens()), last(reordered(drawn_tokens())));
}

// Of a trained model.

/// Windows one after another in a stream of their own, so that each can be changed alone: of `length` inputs and the next token.
struct Windows {
  std::vector<std::int32_t> tokens;
  std::vector<EvalWindow> all;
  std::int64_t length;
  std::int32_t* of(std::size_t w) { return tokens.data() + w * static_cast<std::size_t>(length + 1); }
};

Windows cut(const Split& split, std::int64_t length, std::int64_t targets, std::int64_t count) {
  Windows cut{{}, {}, length};
  for (const EvalWindow& w :
       fixed_target_windows(static_cast<std::int64_t>(split.tokens.size()), length, length, targets, count)) {
    cut.all.push_back({static_cast<std::int64_t>(cut.tokens.size()), length, length - targets});
    cut.tokens.insert(cut.tokens.end(), split.tokens.begin() + w.begin, split.tokens.begin() + w.begin + length + 1);
  }
  return cut;
}

std::vector<WindowLoss> losses(const LanguageModel& model, const Windows& windows, const EvalSettings& settings) {
  std::vector<WindowLoss> all;
  for (const auto& nll : score_windows(model, windows.tokens, windows.all, nullptr, settings))
    all.push_back({std::accumulate(nll.begin(), nll.end(), 0.0), static_cast<std::int64_t>(nll.size())});
  return all;
}

Disturbance compared(const std::string& what, const std::vector<WindowLoss>& intact, const std::vector<WindowLoss>& disturbed) {
  std::vector<WindowLoss> differences = disturbed;
  Disturbance d;
  d.what = what;
  for (std::size_t i = 0; i < intact.size(); ++i) {
    differences[i].nll_sum -= intact[i].nll_sum;
    d.targets += intact[i].targets;
  }
  d.nll = mean_nll(disturbed);
  d.change = mean_nll(differences);
  d.change_stderr = bootstrap_stderr(differences);
  return d;
}

}  // namespace

DistanceCurves distance_curves(const Experiment& e, const std::vector<std::int64_t>& distances) {
  const torch::NoGradGuard no_grad;
  const LayerPosition position = e.model.position.plan(e.model.layers).front();
  const ModelShape shape = e.shape();
  const auto scheme = make_scheme(position.name, position.parameters, shape);
  scheme->initialise(torch::make_generator<torch::CPUGeneratorImpl>(derive_seed(static_cast<std::uint64_t>(e.seed), "inspect")));
  DistanceCurves curves{distances, {}, {}};
  const Tensor at = torch::tensor(distances, torch::kInt64).to(torch::kFloat64);
  const Frame frame{{at, 0}, {torch::zeros({1}, torch::kFloat64), 0}, 0, shape.train_length};  // queries so far from key 0
  Tensor bias = scheme->distance_bias(at);                                                     // [H, n]
  if (!bias.defined() && scheme->dense_bias()) bias = scheme->bias(frame).squeeze(2);
  for (std::int64_t h = 0; bias.defined() && h < bias.size(0); ++h) {
    const Tensor row = bias[h].to(torch::kFloat64).contiguous();
    curves.bias.emplace_back(row.data_ptr<double>(), row.data_ptr<double>() + row.numel());
  }
  const Turn query = scheme->turn(Side::kQuery, frame), key = scheme->turn(Side::kKey, frame);
  if (query.cos.defined()) {
    const Tensor mean = (query.cos * key.cos + query.sin * key.sin).mean(1).contiguous();  // [n]: cos of the difference
    curves.rotation.assign(mean.data_ptr<double>(), mean.data_ptr<double>() + mean.numel());
  }
  return curves;
}

OrderOfContext order_of_context(const Experiment& e) {
  const ModelConfig none = without_positions(e.model);
  OrderOfContext order;
  order.unmasked = change_by_order_unmasked();
  order.causal_one_layer = change_by_order(*untrained(none, 1, e.train.length));
  order.causal = change_by_order(*untrained(none, 2, e.train.length));
  order.scheme_one_layer = change_by_order(*untrained(e.model, 1, e.train.length));
  order.scheme = change_by_order(*untrained(e.model, 2, e.train.length));
  if (untrained(e.model, 1, e.train.length)->refusal(kLength + 7, nullptr).empty())
    order.shift = change_by_shift(*untrained(e.model, 2, e.train.length));
  return order;
}

std::vector<Disturbance> disturbances(const LanguageModel& model, const Dataset& dataset, const Experiment& e,
                                      const EvalSettings& settings) {
  const Split& split = dataset.split(e.eval.split);
  const std::int64_t length = e.train.length, targets = std::max<std::int64_t>(1, std::min<std::int64_t>(length / 4, 32));
  require_window(split, length);
  const Windows windows = cut(split, length, targets, e.eval.windows);
  const auto intact = losses(model, windows, settings);
  const std::int64_t context = length - targets;  // inputs before the first that predicts a target
  std::vector<Disturbance> found = {compared("undisturbed", intact, intact)};
  Windows shuffled = windows, exchanged = windows;
  for (std::size_t w = 0; w < windows.all.size() && context >= 2; ++w) {
    Rng rng(derive_seed(static_cast<std::uint64_t>(e.seed), "shuffle", w));
    for (std::int64_t i = context - 1; i > 0; --i)
      std::swap(shuffled.of(w)[i], shuffled.of(w)[rng.below(static_cast<std::uint64_t>(i + 1))]);
    std::swap(exchanged.of(w)[context - 1], exchanged.of(w)[context - 2]);
  }
  found.push_back(compared("context shuffled", intact, losses(model, shuffled, settings)));
  found.push_back(compared("last two tokens of the context exchanged", intact, losses(model, exchanged, settings)));

  const Windows last = cut(split, length, 1, e.eval.windows);
  const auto one_intact = losses(model, last, settings);
  const auto vocab = static_cast<std::uint64_t>(dataset.tokenizer->vocab_size());
  for (std::int64_t d = 1; d <= length; d *= 2) {
    Windows replaced = last;
    for (std::size_t w = 0; w < last.all.size(); ++w) {
      Rng rng(derive_seed(static_cast<std::uint64_t>(e.seed), "replace", w));
      std::int32_t& token = replaced.of(w)[length - d];
      token = static_cast<std::int32_t>(
          (static_cast<std::uint64_t>(token) + 1 + rng.below(std::max<std::uint64_t>(1, vocab - 1))) % vocab);
    }
    found.push_back(
        compared("token " + std::to_string(d) + " before the target replaced", one_intact, losses(model, replaced, settings)));
  }
  return found;
}

}  // namespace posenc
