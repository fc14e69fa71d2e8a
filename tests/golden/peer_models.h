#pragma once
// Peers' models as ours, for goldens that come with weights: the sizes from the golden (nanoGPT) or the config.json beside it
// (Llama), and our parameters under the peer's names.
//
//   const PeerModel peer = peer_model(golden);
//   const auto model = make_model(peer.config, peer.vocab, peer.length, dtype);
//   load(peer_names(*model, peer), peer.weights);

#include <filesystem>
#include <map>
#include <stdexcept>
#include <string>

#include "core/files.h"
#include "core/safetensors.h"
#include "golden/golden.h"
#include "model/hugging_face.h"
#include "model/language_model.h"

namespace posenc::golden {

struct PeerModel {
  std::string family;  ///< "nanogpt" | "llama"
  ModelConfig config;
  std::int64_t vocab = 0, length = 1;
  std::filesystem::path weights;
};

/// Our parameters by the peer's names: views, so that they load and read alike.
using Weights = std::map<std::string, Tensor>;

inline ModelConfig model_config(const Json& json) {
  ModelConfig config = from_json<ModelConfig>(json);
  config.resolve();
  return config;
}

inline PeerModel nanogpt(const Golden& golden) {
  const Json& p = golden.root.at("params");
  const Json& m = p.at("model");
  if (m.at("dropout").get<double>() != 0) throw std::runtime_error("dropout has no golden: it draws random numbers");
  return {"nanogpt",
          model_config({{"layers", m.at("n_layer")},
                        {"d_model", m.at("n_embd")},
                        {"heads", m.at("n_head")},
                        {"norm", "layernorm"},
                        {"norm_eps", 1e-5},
                        {"activation", "gelu"},
                        {"bias", m.at("bias")},
                        {"tie_embeddings", true},
                        {"position", "learned"}}),
          m.at("vocab_size").get<std::int64_t>(), m.at("block_size").get<std::int64_t>(),
          golden.path.parent_path() / p.at("init_file").get<std::string>()};
}

inline PeerModel llama(const Golden& golden) {
  const auto path = golden.path.parent_path() / "config.json";
  HuggingFaceModel read = read_hugging_face(load_json(path));
  return {"llama", std::move(read.config), read.vocab, read.train_length, golden.path.parent_path() / "model.safetensors"};
}

/// What keeps our model from being the peer's: "" when nothing does.
inline std::string peer_obstacle(const Golden& golden) {
  if (golden.root.at("params").contains("model")) return "";
  try {
    llama(golden);
    return "";
  } catch (const ConfigError& error) {
    return error.what();
  }
}

inline PeerModel peer_model(const Golden& golden) {
  return golden.root.at("params").contains("model") ? nanogpt(golden) : llama(golden);
}

/// Of a model made from `peer_model`.
inline Weights peer_names(const LanguageModel& model, const PeerModel& peer_model) {
  const auto ours = model.named_parameters();
  const ModelShape shape = peer_model.config.shape(peer_model.length);
  const std::int64_t q = shape.heads * shape.head_dim, k = q + shape.kv_heads * shape.head_dim;
  Weights w;
  const bool gpt = peer_model.family == "nanogpt";
  const auto add = [&](const std::string& peer, const std::string& name) {  // with its bias, if there is one
    w[peer + ".weight"] = ours[name + ".weight"];
    if (ours.contains(name + ".bias")) w[peer + ".bias"] = ours[name + ".bias"];
  };
  w[gpt ? "transformer.wte.weight" : "model.embed_tokens.weight"] = ours["embedding"];
  if (ours.contains("head")) w["lm_head.weight"] = ours["head"];
  if (gpt) w["transformer.wpe.weight"] = ours["position.table"];
  add(gpt ? "transformer.ln_f" : "model.norm", "norm");
  for (std::int64_t l = 0; l < shape.layers; ++l) {
    const std::string name = "layers_" + std::to_string(l), peer = (gpt ? "transformer.h." : "model.layers.") + std::to_string(l);
    add(peer + (gpt ? ".ln_1" : ".input_layernorm"), name + ".attention_norm");
    add(peer + (gpt ? ".ln_2" : ".post_attention_layernorm"), name + ".mlp_norm");
    add(peer + (gpt ? ".attn.c_proj" : ".self_attn.o_proj"), name + ".out");
    add(peer + (gpt ? ".mlp.c_fc" : ".mlp.up_proj"), name + ".up");
    add(peer + (gpt ? ".mlp.c_proj" : ".mlp.down_proj"), name + ".down");
    if (gpt) {
      add(peer + ".attn.c_attn", name + ".qkv");  // rows q, k, v as ours
      continue;
    }
    add(peer + ".mlp.gate_proj", name + ".gate");
    const Tensor qkv = ours[name + ".qkv.weight"].detach();
    w[peer + ".self_attn.q_proj.weight"] = qkv.slice(0, 0, q);
    w[peer + ".self_attn.k_proj.weight"] = qkv.slice(0, q, k);
    w[peer + ".self_attn.v_proj.weight"] = qkv.slice(0, k);
  }
  return w;
}

/// Every tensor of the file into its parameter, and every parameter from a tensor.
inline void load(const Weights& weights, const std::filesystem::path& path) {
  const torch::NoGradGuard no_grad;
  const TensorFile file = read_safetensors(path);
  if (file.tensors.size() != weights.size()) {
    throw std::runtime_error(path.string() + " holds " + std::to_string(file.tensors.size()) + " tensors, the model " +
                             std::to_string(weights.size()));
  }
  for (const auto& [name, raw] : file.tensors) {
    const Tensor values = torch::tensor(raw.to_double(), torch::kFloat64).reshape(raw.shape);
    if (values.sizes() != weights.at(name).sizes()) throw std::runtime_error(path.string() + ": " + name + " has another shape");
    weights.at(name).copy_(values);
  }
}

}  // namespace posenc::golden
