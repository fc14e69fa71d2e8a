#include "model/hugging_face.h"

#include <utility>
#include <vector>

#include "core/error.h"

namespace posenc {
namespace {

/// A member that is absent or null counts as the default.
Json member(const Json& object, const char* key, Json otherwise = nullptr) {
  const auto at = object.find(key);
  return at == object.end() || at->is_null() ? std::move(otherwise) : *at;
}

/// Copies the members that are there, from their names to ours.
void copy_members(const Json& from, std::initializer_list<std::pair<const char*, const char*>> names, Json& to) {
  for (const auto& [theirs, ours] : names) {
    if (const Json value = member(from, theirs); !value.is_null()) to[ours] = value;
  }
}

// Each tensor of theirs in terms of ours: alone, or a run of rows of our qkv.

struct Row {
  std::string theirs, ours;
  std::int64_t begin = 0, end = 0;  ///< rows of ours; 0, 0: all
};

std::vector<Row> rows_of(const ModelConfig& c) {
  const std::int64_t q = c.heads * *c.head_dim, k = q + *c.kv_heads * *c.head_dim, v = k + *c.kv_heads * *c.head_dim;
  std::vector<Row> rows = {{"model.embed_tokens.weight", "embedding"}, {"model.norm.weight", "norm.weight"}};
  if (!c.tie_embeddings) rows.push_back({"lm_head.weight", "head"});
  for (std::int64_t l = 0; l < c.layers; ++l) {
    const std::string theirs = "model.layers." + std::to_string(l) + ".", ours = "layers_" + std::to_string(l) + ".";
    rows.push_back({theirs + "input_layernorm.weight", ours + "attention_norm.weight"});
    rows.push_back({theirs + "post_attention_layernorm.weight", ours + "mlp_norm.weight"});
    for (const std::string& part : c.bias ? std::vector<std::string>{"weight", "bias"} : std::vector<std::string>{"weight"}) {
      rows.push_back({theirs + "self_attn.q_proj." + part, ours + "qkv." + part, 0, q});
      rows.push_back({theirs + "self_attn.k_proj." + part, ours + "qkv." + part, q, k});
      rows.push_back({theirs + "self_attn.v_proj." + part, ours + "qkv." + part, k, v});
      rows.push_back({theirs + "self_attn.o_proj." + part, ours + "out." + part});
      rows.push_back({theirs + "mlp.gate_proj." + part, ours + "gate." + part});
      rows.push_back({theirs + "mlp.up_proj." + part, ours + "up." + part});
      rows.push_back({theirs + "mlp.down_proj." + part, ours + "down." + part});
    }
  }
  return rows;
}

const RawTensor& tensor(const TensorFile& file, const std::string& name, const std::string& source) {
  const auto at = file.tensors.find(name);
  if (at == file.tensors.end()) throw DataError(source + ": tensor \"" + name + "\" is missing");
  return at->second;
}

/// The bytes of one row along the first dimension.
std::size_t row_bytes(const RawTensor& t) {
  return t.shape.empty() || t.shape[0] == 0 ? 0 : t.bytes.size() / static_cast<std::size_t>(t.shape[0]);
}

void require_llama(bool holds, const std::string& what, std::vector<Problem>& problems) {
  if (!holds) problems.push_back({"", "", "a Hugging Face Llama has " + what});
}

}  // namespace

RopeScaling read_rope_scaling(const Json& scaling, std::int64_t max_positions, std::optional<std::int64_t> original) {
  RopeScaling read;
  read.trained_length = max_positions;
  if (!scaling.is_object()) return read;
  const std::string type = member(scaling, "rope_type", member(scaling, "type", "default")).get<std::string>();
  const Json own_original = member(scaling, "original_max_position_embeddings");
  const std::int64_t declared = own_original.is_null() ? original.value_or(max_positions) : own_original.get<std::int64_t>();
  Json& extension = read.extension;
  if (type == "default") return read;
  if (type == "proportional") {
    read.proportional = member(scaling, "partial_rotary_factor", 1.0).get<double>();
  } else if (type == "linear") {
    extension = {{"method", "pi"}, {"align", "scale"}};
    copy_members(scaling, {{"factor", "factor"}}, extension);
  } else if (type == "dynamic") {
    extension = {{"method", "dynamic_ntk"}};
    copy_members(scaling, {{"factor", "factor"}}, extension);
  } else if (type == "yarn") {
    read.trained_length = declared;
    extension = {{"method", "yarn"}};
    copy_members(scaling,
                 {{"factor", "factor"},
                  {"beta_fast", "beta_fast"},
                  {"beta_slow", "beta_slow"},
                  {"truncate", "truncate"},
                  {"attention_factor", "attention_factor"}},
                 extension);
    if (scaling.contains("mscale") && scaling.contains("mscale_all_dim"))  // one alone is not used by their code either
      copy_members(scaling, {{"mscale", "mscale"}, {"mscale_all_dim", "mscale_all_dim"}}, extension);
  } else if (type == "longrope") {
    read.trained_length = declared;
    extension = {{"method", "longrope"}};
    copy_members(scaling,
                 {{"long_factor", "long_factor"}, {"short_factor", "short_factor"}, {"attention_factor", "attention_factor"}},
                 extension);
    if (declared != max_positions) extension["factor"] = static_cast<double>(max_positions) / static_cast<double>(declared);
    else copy_members(scaling, {{"factor", "factor"}}, extension);
  } else if (type == "llama3") {
    read.trained_length = declared;
    extension = {{"method", "llama3"}};
    copy_members(scaling,
                 {{"factor", "factor"}, {"low_freq_factor", "low_freq_factor"}, {"high_freq_factor", "high_freq_factor"}},
                 extension);
  } else {
    throw ConfigError("rope_type \"" + type +
                      "\" is not known; there are default, linear, dynamic, yarn, longrope, llama3, proportional");
  }
  return read;
}

HuggingFaceModel read_hugging_face(const Document& document) {
  const Json& c = document.root;
  std::vector<Problem> problems;
  const auto refuse = [&](const char* key, const std::string& rule) {
    problems.push_back({document.where(join_pointer("", key)), join_pointer("", key), rule});
  };
  for (const char* key : {"num_hidden_layers", "hidden_size", "num_attention_heads", "intermediate_size", "vocab_size",
                          "max_position_embeddings"}) {
    if (!member(c, key).is_number_integer()) refuse(key, "is a whole number in every Llama config");
  }
  if (member(c, "model_type") != "llama") refuse("model_type", brief(member(c, "model_type")) + " is not \"llama\"");
  if (member(c, "hidden_act", "silu") != "silu") refuse("hidden_act", "only silu is built");
  const bool bias = member(c, "attention_bias", false).get<bool>();
  if (member(c, "mlp_bias", false).get<bool>() != bias) refuse("mlp_bias", "biases in some layers only are not built");
  if (!problems.empty()) throw ConfigError(std::move(problems));

  const Json parameters = member(c, "rope_parameters", member(c, "rope_scaling"));
  const Json theta = member(c, "rope_theta", parameters.is_object() ? member(parameters, "rope_theta", 10000.0) : Json(10000.0));
  std::optional<std::int64_t> original;
  if (const Json given = member(c, "original_max_position_embeddings"); !given.is_null()) original = given.get<std::int64_t>();
  const RopeScaling scaling = read_rope_scaling(parameters, c["max_position_embeddings"].get<std::int64_t>(), original);
  const Json model = {{"layers", c["num_hidden_layers"]},
                      {"d_model", c["hidden_size"]},
                      {"heads", c["num_attention_heads"]},
                      {"kv_heads", member(c, "num_key_value_heads")},
                      {"head_dim", member(c, "head_dim")},
                      {"d_ff", c["intermediate_size"]},
                      {"norm", "rmsnorm"},
                      {"norm_eps", member(c, "rms_norm_eps", 1e-6)},
                      {"activation", "swiglu"},
                      {"bias", bias},
                      {"tie_embeddings", member(c, "tie_word_embeddings", false)},
                      {"position",
                       {{"scheme", "rope"},
                        {"base", theta},
                        {"partial", member(c, "partial_rotary_factor", 1.0)},
                        {"proportional", scaling.proportional}}},
                      {"extension", scaling.extension}};
  HuggingFaceModel read{from_json<ModelConfig>(model, document.name), c["vocab_size"].get<std::int64_t>(),
                        scaling.trained_length};
  read.config.resolve();
  return read;
}

Json hugging_face_config(const HuggingFaceModel& model) {
  const ModelConfig& c = model.config;
  const Json& rope = c.position.parameters;
  const PositionConfig plain = from_json<ModelConfig>({{"position", c.position.name}}).position;
  std::vector<Problem> problems;
  require_llama(c.position.name == "rope", "the scheme rope; this model has " + c.position.name, problems);
  require_llama(c.norm == "rmsnorm", "RMSNorm (model.norm)", problems);
  require_llama(c.activation == "swiglu", "the activation swiglu; this model has " + c.activation, problems);
  require_llama(!c.qk_norm, "no qk_norm", problems);
  require_llama(c.position.axes == plain.axes && c.position.pattern.empty(), "no windows, sinks, temperature or layer plan",
                problems);
  require_llama(!c.extension, "no extension of its own here", problems);
  if (problems.empty()) {
    require_llama(rope.at("layout") == "half_split", "the layout half_split", problems);
    require_llama(rope.at("partial") == 1.0 && rope.at("proportional") == 1.0 && !rope.at("learned").get<bool>(),
                  "all dims turned by fixed frequencies", problems);
  }
  if (!problems.empty()) throw ConfigError(std::move(problems));
  return {{"architectures", {"LlamaForCausalLM"}},
          {"model_type", "llama"},
          {"vocab_size", model.vocab},
          {"hidden_size", c.d_model},
          {"intermediate_size", *c.d_ff},
          {"num_hidden_layers", c.layers},
          {"num_attention_heads", c.heads},
          {"num_key_value_heads", *c.kv_heads},
          {"head_dim", *c.head_dim},
          {"hidden_act", "silu"},
          {"max_position_embeddings", model.train_length},
          {"rms_norm_eps", c.norm_eps},
          {"rope_theta", rope.at("base")},
          {"rope_scaling", nullptr},
          {"attention_bias", c.bias},
          {"mlp_bias", c.bias},
          {"tie_word_embeddings", c.tie_embeddings},
          {"bos_token_id", nullptr},
          {"eos_token_id", nullptr},
          {"torch_dtype", "float32"}};
}

TensorFile from_hugging_face(const TensorFile& theirs, const ModelConfig& config, const std::string& source) {
  TensorFile ours;
  for (const Row& row : rows_of(config)) {
    const RawTensor& part = tensor(theirs, row.theirs, source);
    const auto [at, is_new] = ours.tensors.try_emplace(row.ours, part);
    if (is_new) continue;
    RawTensor& whole = at->second;  // rows of q before, then of k and v
    if (part.dtype != whole.dtype || part.shape.size() != whole.shape.size() || row_bytes(part) != row_bytes(whole))
      throw DataError(source + ": \"" + row.theirs + "\" does not fit beside q_proj");
    whole.shape[0] += part.shape[0];
    whole.bytes += part.bytes;
  }
  return ours;
}

TensorFile to_hugging_face(const TensorFile& ours, const ModelConfig& config, const std::string& source) {
  TensorFile theirs;
  for (const Row& row : rows_of(config)) {
    RawTensor part = tensor(ours, row.ours, source);
    if (row.end > 0) {
      const std::size_t bytes = row_bytes(part), begin = static_cast<std::size_t>(row.begin) * bytes;
      if (part.shape.empty() || part.shape[0] < row.end) throw DataError(source + ": \"" + row.ours + "\" has too few rows");
      part.bytes = part.bytes.substr(begin, static_cast<std::size_t>(row.end - row.begin) * bytes);
      part.shape[0] = row.end - row.begin;
    }
    theirs.tensors[row.theirs] = std::move(part);
  }
  theirs.metadata["format"] = "pt";
  return theirs;
}

}  // namespace posenc
