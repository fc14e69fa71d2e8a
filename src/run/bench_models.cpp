// Whole models: a training step and the scoring of a window.
#include <memory>

#include "eval/evaluate.h"
#include "model/language_model.h"
#include "run/bench_work.h"
#include "train/step.h"

namespace posenc {
namespace {

Tensor random_bytes(at::IntArrayRef sizes) { return torch::randint(256, sizes, bench_generator(), torch::kInt64); }

ModelConfig model_config(BenchModel size, const std::string& scheme) {
  Json json = size == BenchModel::kS ? Json{{"layers", 4}, {"d_model", 128}, {"heads", 4}}
                                     : Json{{"layers", 6}, {"d_model", 384}, {"heads", 6}};
  json["position"] = scheme;
  ModelConfig config = from_json<ModelConfig>(json);
  config.resolve();
  return config;
}

std::shared_ptr<LanguageModel> filled_model(const ModelConfig& config, std::int64_t train_length) {
  auto model = make_model(config, 256, train_length);
  model->initialise(1);
  return model;
}

/// Of a token in forward: 2·parameters (tied embeddings once, as the head) and 4·layers·d_model·T/2 for q·k and w·v with the T/2
/// keys that it sees on average. Backward is twice that, not counting what it forms again; so a training step comes to
/// 6·parameters + 12·layers·d_model·T/2 per token.
double forward_flops(const LanguageModel& model, const ModelConfig& c, std::int64_t length) {
  return 2.0 * static_cast<double>(model.parameter_count()) + 4.0 * static_cast<double>(c.layers * c.d_model * length) / 2;
}

}  // namespace

BenchWork prepare(const TrainCase& c, int threads) {
  const ModelConfig config = model_config(c.model, c.scheme);
  TrainConfig train;
  train.length = c.length;
  train.batch_tokens = TrainCase::kTokens;
  const auto model = filled_model(config, c.length);
  const auto optimizer = std::make_shared<AdamW>(model->parameters(), train);
  const Tensor windows = random_bytes({train.sequences(), c.length + 1});
  StepOptions options;
  options.lr = train.lr;
  options.grad_clip = train.grad_clip;
  options.micro_batch = train.micro_batch();
  options.threads = threads;
  BenchWork work;
  work.tokens = TrainCase::kTokens;
  work.flops = 3 * forward_flops(*model, config, c.length) * static_cast<double>(work.tokens);
  work.threads = threads;
  work.iteration = [=] { train_step(*model, *optimizer, windows.slice(1, 0, c.length), windows.slice(1, 1), options); };
  return work;
}

BenchWork prepare(const EvalCase& c, int threads) {
  constexpr std::int64_t kTrainLength = 128;
  const ModelConfig config = model_config(c.model, c.scheme);
  const auto model = filled_model(config, kTrainLength);
  const Tensor bytes = random_bytes({c.length + 1});
  const auto* first = bytes.data_ptr<std::int64_t>();
  const std::vector<std::int32_t> tokens(first, first + bytes.numel());
  EvalSettings settings;
  settings.threads = threads;
  BenchWork work;
  work.tokens = c.length;
  work.flops = forward_flops(*model, config, c.length) * static_cast<double>(work.tokens);
  work.threads = threads;
  work.shows_memory = true;
  work.iteration = [=] { score_windows(*model, tokens, {{0, c.length, 0}}, nullptr, settings); };
  return work;
}

}  // namespace posenc
