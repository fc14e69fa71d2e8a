#pragma once
// A model small enough to test every claim on it, with parameters large enough that position matters, and the models worth
// testing: every registered scheme with its defaults, with fewer key/value heads, and with the parameters that change what it
// computes.

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "data/dataset.h"
#include "eval/config.h"
#include "model/language_model.h"

namespace posenc {

inline constexpr std::int64_t kTrainLength = 16, kVocab = 32;

struct Variation {
  std::string label;  ///< letters, digits and _
  Json model;         ///< the model section of a config, over tiny_config's defaults
  friend void PrintTo(const Variation& v, std::ostream* out) { *out << v.model.dump(); }
};

/// The model section resolved; 2 layers, d_model 32, 4 heads unless it says otherwise. Fails the test when a rule refuses it.
inline ModelConfig tiny_config(const Json& model) {
  Json json = {{"layers", 2}, {"d_model", 32}, {"heads", 4}, {"d_ff", 48}};
  json.update(model);
  ModelConfig config = from_json<ModelConfig>(json);
  std::vector<Problem> problems;
  const Document document{json, "tiny", {}};
  config.position.check(config.shape(kTrainLength), Reader(document, problems));
  for (const Problem& problem : problems) ADD_FAILURE() << problem.pointer << ": " << problem.rule;
  config.resolve();
  return config;
}

/// Fills parameters so that no part of the model is negligible; the same numbers in every dtype.
inline void fill(LanguageModel& model, std::uint64_t seed) {
  const torch::NoGradGuard no_grad;
  const auto generator = torch::make_generator<torch::CPUGeneratorImpl>(seed);
  for (auto& item : model.named_parameters()) {
    Tensor& p = item.value();
    const bool weight = item.key().ends_with(".weight");
    // Of a norm; and of a scheme's numbers per head, of which some must be positive.
    const double mean = p.dim() > 1 ? 0 : weight ? 1 : item.key().starts_with("position") ? 0.3 : 0;
    const double deviation = weight && p.dim() == 2 ? 1.2 / std::sqrt(static_cast<double>(p.size(1))) : p.dim() == 2 ? 0.5 : 0.2;
    p.copy_(torch::empty(p.sizes(), torch::kFloat64).normal_(mean, deviation, generator));
  }
}

inline std::shared_ptr<LanguageModel> tiny_model(const Json& model, torch::ScalarType dtype = torch::kFloat32,
                                                 std::int64_t vocab = kVocab, std::uint64_t seed = 1) {
  auto built = make_model(tiny_config(model), vocab, kTrainLength, dtype);
  fill(*built, seed);
  return built;
}

inline Tensor random_tokens(std::int64_t batch, std::int64_t length, std::uint64_t seed = 7) {
  return torch::randint(kVocab, {batch, length}, torch::make_generator<torch::CPUGeneratorImpl>(seed), torch::kInt64);
}

/// Logits [B, T, V] without a graph.
inline Tensor logits_of(const LanguageModel& model, const Tensor& tokens, const Pass& pass = {}) {
  const torch::NoGradGuard no_grad;
  return model.logits(model.hidden(tokens, pass));
}

/// A registered extension as an experiment on `config` may name it: by its name, and with the parameters it must have.
inline Json named_extension(const ExtensionInfo& info, const ModelConfig& config) {
  if (info.name != "longrope") return info.name;
  const auto width =
      static_cast<std::int64_t>(static_cast<double>(*config.head_dim) * config.position.parameters.value("partial", 1.0));
  Json factors = Json::array();
  for (std::int64_t k = 0; k < width / 2; ++k) factors.push_back(1 + 0.5 * static_cast<double>(k));
  return {{"method", "longrope"}, {"long_factor", factors}, {"unscaled", 3}};
}

/// Every extension that fits all of the schemes of `config`, as an experiment names it.
inline std::vector<Json> fitting_extensions(const ModelConfig& config) {
  std::vector<Json> fitting;
  for (const ExtensionInfo& info : extensions()) {
    ExtensionConfig choice;
    choice.name = info.name;
    if (extension_misfit(choice, config.position.used_schemes()).empty()) fitting.push_back(named_extension(info, config));
  }
  return fitting;
}

/// The same bytes as text of all three splits.
inline Dataset text_dataset(const std::string& text) {
  Dataset dataset;
  dataset.tokenizer = make_tokenizer("byte", "", "test");
  for (const auto& [split, name] :
       {std::pair(&dataset.train, "train"), std::pair(&dataset.valid, "valid"), std::pair(&dataset.test, "test")}) {
    *split = {name, dataset.tokenizer->encode(text, name), static_cast<std::int64_t>(text.size()), std::string(name) + ".txt",
              "sha of " + text};
  }
  return dataset;
}

/// Parameters of a scheme that change what it computes.
inline const std::vector<Variation>& scheme_variations() {
  static const std::vector<Variation> all = {
      {"partial", {{"position", {{"scheme", "rope"}, {"partial", 0.5}}}}},
      {"interleaved", {{"position", {{"scheme", "rope"}, {"layout", "interleaved"}, {"base", 100}}}}},
      {"partial_interleaved", {{"position", {{"scheme", "rope"}, {"layout", "interleaved"}, {"partial", 0.5}}}}},
      {"concat", {{"position", {{"scheme", "sinusoidal"}, {"layout", "concat"}, {"token_scale", false}}}}},
      {"tensor2tensor", {{"position", {{"scheme", "sinusoidal"}, {"frequencies", "tensor2tensor"}}}}},
      {"long_table", {{"position", {{"scheme", "learned"}, {"max_positions", 64}}}}},
      {"six_heads", {{"position", "alibi"}, {"heads", 6}, {"head_dim", 8}}},
      {"geometric",
       {{"position", {{"scheme", "alibi"}, {"slopes", "geometric"}, {"bias_max", 4}}}, {"heads", 6}, {"head_dim", 8}}},
      {"per_layer", {{"position", {{"scheme", "t5"}, {"share_layers", false}}}}},
      {"few_buckets", {{"position", {{"scheme", "t5"}, {"buckets", 8}, {"max_distance", 20}, {"scale", 2.5}}}}},
      {"gpt2",
       {{"position", "learned"}, {"norm", "layernorm"}, {"bias", true}, {"activation", "gelu_tanh"}, {"tie_embeddings", false}}},
      {"llama", {{"position", "rope"}, {"activation", "swiglu"}, {"kv_heads", 1}, {"head_dim", 6}, {"tie_embeddings", false}}},
      {"learned", {{"position", {{"scheme", "alibi"}, {"learned", true}}}}},
      {"learned_partial", {{"position", {{"scheme", "alibi"}, {"learned", true}, {"biased_heads", 2}}}}},
      {"partial", {{"position", {{"scheme", "alibi"}, {"biased_heads", 3}}}}},
      {"early", {{"position", {{"scheme", "rel_scalar"}, {"max_distance", 5}, {"share_layers", true}}}}},
      {"masked", {{"position", {{"scheme", "rel_scalar"}, {"max_distance", 5}, {"far", "mask"}}}}},
      {"per_layer", {{"position", {{"scheme", "kerple_log"}, {"share_layers", false}}}}},
      {"per_layer", {{"position", {{"scheme", "kerple_power"}, {"share_layers", false}, {"init", "alibi"}}}}},
      {"per_layer", {{"position", {{"scheme", "kerple_power_weight"}, {"share_layers", false}, {"init", "alibi"}}}}},
      {"narrow", {{"position", {{"scheme", "sandwich"}, {"d_bar", 8}, {"index_base", 0}, {"base", 100}}}}},
      {"log_distance",
       {{"position", {{"scheme", "dynamic"}, {"log_distance", true}, {"depth", 3}, {"width", 5}, {"share_layers", false}}}}},
      {"shared", {{"position", {{"scheme", "fire"}, {"share_layers", true}}}}},
      {"proportional", {{"position", {{"scheme", "rope"}, {"proportional", 0.5}}}}},
      {"learned", {{"position", {{"scheme", "rope"}, {"learned", true}}}}},
      {"learned_interleaved",
       {{"position", {{"scheme", "rope"}, {"learned", true}, {"layout", "interleaved"}, {"partial", 0.5}}}}},
      {"half_split", {{"position", {{"scheme", "xpos"}, {"layout", "half_split"}, {"scale_base", 16}}}}},
      {"uniform", {{"position", {{"scheme", "polar"}, {"bias_init", "uniform"}}}}},
      {"fixed", {{"position", {{"scheme", "fox"}, {"gate", "fixed"}}}}},
      {"self", {{"position", {{"scheme", "stick_breaking"}, {"remainder", "self"}}}}},
      {"short", {{"position", {{"scheme", "path"}, {"rank", 4}, {"convolution", 1}}}}},
      {"window", {{"position", {{"scheme", "fox"}, {"window", 5}}}}},
      {"window", {{"position", {{"scheme", "path"}, {"window", 5}}}}},
      {"window", {{"position", {{"scheme", "stick_breaking"}, {"window", 5}}}}},
      {"bert", {{"position", {{"scheme", "shaw"}, {"form", "relative_key_query"}, {"max_distance", 5}}}}},
      {"keys_only", {{"position", {{"scheme", "shaw"}, {"values", false}, {"window", 6}}}}},
      {"clamped", {{"position", {{"scheme", "transformer_xl"}, {"clamp_length", 6.5}, {"base", 100}}}}},
      {"c2p", {{"position", {{"scheme", "deberta"}, {"terms", {"c2p"}}, {"buckets", 6}}}}},
      {"logarithmic", {{"position", {{"scheme", "deberta"}, {"buckets", 8}, {"log_distance", 20}}}}},
      {"paper", {{"position", {{"scheme", "cope"}, {"form", "paper"}, {"max_positions", 5}}}}},
      {"shared", {{"position", {{"scheme", "cope"}, {"share_layers", true}}}}},
      {"alibi", {{"position", {{"scheme", "dape"}, {"over", {{"scheme", "alibi"}, {"bias_max", 4}}}, {"hidden", 5}}}}},
      {"shared", {{"position", {{"scheme", "dape"}, {"share_layers", true}}}}},
      {"wide", {{"position", {{"scheme", "dape_v2"}, {"over", "alibi"}, {"kernel", 7}, {"hidden", 5}}}}},
      {"window_kept",
       {{"position", {{"scheme", "dape_v2"}, {"window", 5}, {"sinks", {{"type", "learned"}, {"keep_first", 2}}}}}}},
      {"qk_norm", {{"position", "rope"}, {"qk_norm", true}, {"kv_heads", 2}}},
      {"window", {{"position", {{"scheme", "rope"}, {"window", 5}}}}},
      {"window_kept", {{"position", {{"scheme", "alibi"}, {"window", 5}, {"sinks", {{"type", "learned"}, {"keep_first", 2}}}}}}},
      {"chunk", {{"position", {{"scheme", "cope"}, {"chunk", 7}}}}},
      {"zero_sink", {{"position", {{"scheme", "t5"}, {"sinks", "zero"}}}}},
      {"sink_token", {{"position", {{"scheme", "rope"}, {"sinks", "token"}}}}},
      {"log_n", {{"position", {{"scheme", "none"}, {"temperature", {{"method", "log_n"}, {"form", "training"}}}}}}},
      {"ssmax", {{"position", {{"scheme", "alibi"}, {"temperature", "ssmax"}}}}},
      {"llama4", {{"position", {{"scheme", "rope"}, {"temperature", {{"method", "llama4"}, {"floor", 5}}}}}}},
      {"rnope_swa",
       {{"position", {{"scheme", "rope"}, {"window", 5}, {"layers", {"rope", {{"scheme", "none"}, {"window", nullptr}}}}}}}},
      {"clamp", {{"position", {{"scheme", "learned"}, {"overflow", "clamp"}}}}},
      {"zero", {{"position", {{"scheme", "learned"}, {"overflow", "zero"}}}}},
      {"interpolate", {{"position", {{"scheme", "learned"}, {"overflow", "interpolate"}}}}},
      {"scaled", {{"position", {{"scheme", "sinusoidal"}, {"fusion", "add_scaled"}}}}},
      {"beside", {{"position", {{"scheme", "sinusoidal"}, {"fusion", "concat"}}}}},
      {"beside", {{"position", {{"scheme", "learned"}, {"fusion", "concat"}, {"position_width", 5}}}}},
      {"projected", {{"position", {{"scheme", "sinusoidal"}, {"fusion", "concat_project"}}}}},
      {"gated", {{"position", {{"scheme", "sinusoidal"}, {"fusion", "gated"}}}}},
      {"film", {{"position", {{"scheme", "sinusoidal"}, {"fusion", "film"}}}}},
      {"per_layer_added", {{"position", {{"scheme", "sinusoidal"}, {"fusion", "per_layer"}}}}},
      {"qk_only", {{"position", {{"scheme", "sinusoidal"}, {"fusion", "qk_only"}}}}},
      {"relu", {{"position", "none"}, {"activation", "relu"}, {"norm", "layernorm"}}},
  };
  return all;
}

inline std::vector<Variation> variations() {
  std::vector<Variation> all;
  for (const SchemeInfo& info : schemes()) {
    all.push_back({info.name, {{"position", info.name}}});
    all.push_back({info.name + "_grouped", {{"position", info.name}, {"kv_heads", 2}}});
  }
  for (const Variation& v : scheme_variations()) {
    const Json& position = v.model.at("position");
    all.push_back({(position.is_string() ? position : position.at("scheme")).get<std::string>() + "_" + v.label, v.model});
  }
  return all;
}

}  // namespace posenc
