#include "model/config.h"

namespace posenc {
namespace {

std::string divisors_near(std::int64_t n, std::int64_t wanted) {
  std::int64_t below = std::min(wanted, n), above = wanted;
  while (below > 1 && n % below != 0) --below;
  while (above < n && n % above != 0) ++above;
  below = std::max<std::int64_t>(below, 1);
  if (above > n || n % above != 0 || below == above) return std::to_string(below);
  return std::to_string(below) + " or " + std::to_string(above);
}

/// A model that reads its tokens in order has nothing to put positions into.
void check_kind(const ModelConfig& m, const Reader& reader) {
  const PositionConfig none = {};
  const bool plain = m.position.name == "none" && m.position.axes == none.axes && m.position.pattern.empty() &&
                     m.position.sampler.method == none.sampler.method;
  if (!plain) reader.problem("position", "model.kind " + m.kind + " has no positions: give \"none\"");
  if (m.extension) reader.problem("extension", "model.kind " + m.kind + " has no positions to extend");
  if (m.kind != "conv") return;
  if (m.dilations && static_cast<std::int64_t>(m.dilations->size()) != m.layers)
    reader.problem("dilations",
                   "has " + std::to_string(m.dilations->size()) + " numbers for " + std::to_string(m.layers) + " layers");
  if (!m.dilations && m.layers > 16) reader.problem("layers", "more than 16 doublings; give dilations");
}

void check_sizes(const ModelConfig& m, const Reader& reader) {
  if (m.kind != "transformer") return check_kind(m, reader);
  const auto text = [](std::int64_t n) { return std::to_string(n); };
  if (!m.head_dim && m.d_model % m.heads != 0) {
    reader.problem("heads", text(m.heads) + " does not divide d_model " + text(m.d_model) + " (try " +
                                divisors_near(m.d_model, m.heads) + ", or give head_dim)");
  }
  if (m.kv_heads && (*m.kv_heads > m.heads || m.heads % *m.kv_heads != 0)) {
    reader.problem("kv_heads", text(*m.kv_heads) + " does not divide heads " + text(m.heads) + " (try " +
                                   divisors_near(m.heads, *m.kv_heads) + ")");
  }
}

}  // namespace

template <>
const Schema<ModelConfig>& schema<ModelConfig>() {
  static const Schema<ModelConfig> table =
      Schema<ModelConfig>("model")
          .field("kind", &ModelConfig::kind, "architecture")
          .choices({"transformer", "lstm", "gru", "conv"})
          .field("layers", &ModelConfig::layers, "transformer blocks, or layers of another kind")
          .range(1, 1000)
          .field("d_model", &ModelConfig::d_model, "width of the residual stream")
          .range(1, 65536)
          .field("heads", &ModelConfig::heads, "query heads")
          .range(1, 1024)
          .field("kv_heads", &ModelConfig::kv_heads, "key/value heads (grouped-query attention); null: heads")
          .range(1, 1024)
          .field("head_dim", &ModelConfig::head_dim, "width of a head; null: d_model / heads")
          .range(1, 4096)
          .field("d_ff", &ModelConfig::d_ff, "width of the MLP; null: 4 d_model")
          .range(1, 1 << 20)
          .field("norm", &ModelConfig::norm, "normalisation before attention, MLP and head")
          .choices({"rmsnorm", "layernorm"})
          .field("norm_eps", &ModelConfig::norm_eps, "added to the variance")
          .above(0)
          .at_most(1)
          .field("activation", &ModelConfig::activation, "gelu is the exact one, gelu_tanh GPT-2's; swiglu has a third matrix")
          .choices({"gelu", "gelu_tanh", "swiglu", "relu"})
          .field("bias", &ModelConfig::bias, "biases in linear layers and layernorm")
          .field("qk_norm", &ModelConfig::qk_norm,
                 "RMSNorm on queries and keys before they are turned, with a learned gain per dim")
          .field("dropout", &ModelConfig::dropout, "on embeddings, attention output and MLP output, in training")
          .range(0, 0.99)
          .field("tie_embeddings", &ModelConfig::tie_embeddings, "the output head is the token embedding")
          .field("kernel", &ModelConfig::kernel, "conv: taps of a filter")
          .range(2, 64)
          .field("dilations", &ModelConfig::dilations, "conv: the distance between taps, layer by layer; null: 1, 2, 4, ...")
          .range(1, 1 << 16)
          .field("position", &ModelConfig::position, "positional scheme: a name, or {\"scheme\": name, …its parameters}")
          .required()
          .field("extension", &ModelConfig::extension,
                 "an extension the model is trained and evaluated under; null: none. eval.extensions take its place")
          .field("trained_length", &ModelConfig::trained_length,
                 "the training length that positions and extensions go by, where training goes on at another; null: train.length")
          .range(1, 1 << 24)
          .check([](const ModelConfig& m, const Reader& r) { check_sizes(m, r); });
  return table;
}

std::int64_t ModelConfig::dilation(std::int64_t l) const {
  return dilations ? dilations->at(static_cast<std::size_t>(l)) : std::int64_t{1} << l;
}

std::int64_t ModelConfig::receptive_field() const {
  std::int64_t field = 1;
  for (std::int64_t l = 0; l < layers; ++l) field += (kernel - 1) * dilation(l);
  return field;
}

void ModelConfig::resolve() {
  if (!kv_heads) kv_heads = heads;
  if (!head_dim) head_dim = d_model / heads;
  if (!d_ff) d_ff = 4 * d_model;
}

ModelShape ModelConfig::shape(std::int64_t length) const {
  const std::int64_t train_length = trained_length.value_or(length);
  const std::int64_t sink_tokens = position.axes.sinks.type == "token" ? 1 : 0;
  return {layers,
          d_model,
          heads,
          kv_heads.value_or(heads),
          head_dim.value_or(d_model / heads),
          train_length,
          position_limit(position.sampler, train_length) + sink_tokens};
}

}  // namespace posenc
