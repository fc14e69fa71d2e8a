#pragma once
// Hugging Face's Llama layout, read and written: config.json (of transformers 4 and 5) and the names of the weights. No torch.
//
//   HuggingFaceModel m = read_hugging_face(load_json("config.json"));
//   TensorFile ours = from_hugging_face(read_safetensors("model.safetensors"), m.config, "model.safetensors");

#include <cstdint>
#include <optional>
#include <string>

#include "core/json.h"
#include "core/safetensors.h"
#include "model/config.h"

namespace posenc {

struct HuggingFaceModel {
  ModelConfig config;  ///< resolved
  std::int64_t vocab = 0, train_length = 1;
};

/// A "rope_scaling" (or "rope_parameters") as ours.
struct RopeScaling {
  Json extension;                   ///< {"method": …}; null: none
  std::int64_t trained_length = 1;  ///< the length before scaling
  double proportional = 1;          ///< share of the frequencies that is kept
};

/// `scaling` may be null. `max_positions` and `original` are the config's max_position_embeddings and, where it has one beside the
/// scaling, original_max_position_embeddings. ConfigError naming a type that is not known.
RopeScaling read_rope_scaling(const Json& scaling, std::int64_t max_positions, std::optional<std::int64_t> original);

/// ConfigError naming every key that asks for what is not built here.
HuggingFaceModel read_hugging_face(const Document& config);

/// The config.json of a model that is a Llama: rope in half-split layout, RMSNorm, SwiGLU, nothing else. ConfigError naming what
/// keeps it from being one.
Json hugging_face_config(const HuggingFaceModel& model);

/// Weights under our names, from theirs, and back. DataError naming `source` and the tensor that is missing or does not fit.
TensorFile from_hugging_face(const TensorFile& theirs, const ModelConfig& config, const std::string& source);
TensorFile to_hugging_face(const TensorFile& ours, const ModelConfig& config, const std::string& source);

}  // namespace posenc
