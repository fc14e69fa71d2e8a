// The checks of goldens about schemes whose logits see content: Shaw, Transformer-XL, CoPE, DAPE. All of them run the product's
// attention, whole and in blocks of queries.
#include <cmath>
#include <functional>

#include "golden/golden.h"
#include "model/attention.h"
#include "schemes/scheme.h"

namespace posenc::golden {
namespace {

constexpr torch::ScalarType kBothTypes[] = {torch::kFloat32, torch::kFloat64};

/// Tens of units in the last place of logits up to 10; the files give a tolerance in double only.
constexpr double kFloat32Absolute = 1e-5;

Tolerance tolerance_of(const Golden& golden, torch::ScalarType dtype) {
  return {dtype == torch::kFloat64 ? golden.root.at("tolerance").at("float64_abs").get<double>() : kFloat32Absolute, 0};
}

/// The frame of `queries` that end where the `keys` (from position 0) end. Spacing 0: as positions without a constant step.
Frame decode_frame(std::int64_t queries, std::int64_t keys, double spacing = 1) {
  const Tensor positions = torch::arange(keys, torch::kFloat64);
  return {{positions.slice(0, keys - queries), spacing}, {positions, spacing}, keys - queries, keys};
}

/// Zero where the key is in the query's future.
Tensor seen(const Tensor& logits) { return logits.tril(logits.size(-1) - logits.size(-2)); }

/// q, k, v [H, T, D].
struct Heads {
  Tensor q, k, v;
  Heads to(torch::ScalarType dtype) const { return {q.to(dtype), k.to(dtype), v.to(dtype)}; }
  Tensor x() const { return torch::zeros({1, k.size(1), 1}, k.options()); }
  AttentionInput input() const { return {q.unsqueeze(0), k.unsqueeze(0), v.unsqueeze(0), x()}; }
  Content content() const { return {q.unsqueeze(0), k.unsqueeze(0), v.unsqueeze(0), x()}; }
};

Heads heads_of(const Json& in) { return {numbers(in.at("q")), numbers(in.at("k")), numbers(in.at("v"))}; }

/// What a projection [T, H·D] holds for each head, [H, T, D].
Tensor by_head(const Tensor& x, std::int64_t heads) { return x.unflatten(1, {heads, x.size(1) / heads}).transpose(0, 1); }
Tensor merged(const Tensor& y) { return y.transpose(0, 1).flatten(1); }

/// Calls `check` with the attention y [H, Q, D] of each path: fused where it fits, whole, by single queries, by three.
void with_attention(const Scheme& scheme, const Heads& heads, const Frame& frame,
                    const std::function<void(const Tensor&)>& check) {
  AttentionOptions options{AttentionPath::kFused, heads.q.scalar_type(), 1, heads.q.size(0)};
  check(AttentionPlan(scheme, {.content_dependent = true}, frame, options)(heads.input())[0]);
  options.path = AttentionPath::kReference;
  check(AttentionPlan(scheme, {.content_dependent = true}, frame, options)(heads.input())[0]);
  options.path = AttentionPath::kBlocked;
  for (const std::int64_t rows : {1, 3}) {
    options.block_rows = rows;
    check(AttentionPlan(scheme, {.content_dependent = true}, frame, options)(heads.input())[0]);
  }
}

/// With the identity for values, attention returns its weights [H, Q, K].
Heads weighing(const Heads& heads) {
  const std::int64_t keys = heads.k.size(1);
  return {heads.q, heads.k, torch::eye(keys, heads.k.options()).expand({heads.k.size(0), keys, keys})};
}

/// A scheme in `dtype`, its shared tensors its own; `parameters` by name.
std::shared_ptr<Scheme> scheme_with(const std::string& name, const Json& settings, const ModelShape& shape,
                                    torch::ScalarType dtype, const std::vector<std::pair<std::string, Tensor>>& parameters) {
  auto scheme = make_scheme(name, settings, shape);
  scheme->share(scheme->register_shared());
  scheme->to(dtype);
  const torch::NoGradGuard no_grad;
  auto named = scheme->named_parameters();
  for (const auto& [key, value] : parameters) named[key].copy_(value.view_as(named[key]));
  return scheme;
}

ModelShape shape_of(const Json& params) {
  ModelShape shape;
  shape.heads = shape.kv_heads = params.at("n_heads").get<std::int64_t>();
  shape.head_dim = params.at("head_dim").get<std::int64_t>();
  shape.d_model = shape.heads * shape.head_dim;
  return shape;
}

/// Hugging Face's BERT: x is given, and one row of the table per distance.
void check_shaw_bert(Findings& findings, const Golden& golden, const Case& one, torch::ScalarType dtype) {
  const Json &p = one.params(), &weights = one.inputs().at("weights");
  const Tolerance tolerance = tolerance_of(golden, dtype);
  const ModelShape shape = shape_of(p);
  const auto projected = [&](const char* to) {
    const Tensor x = numbers(one.inputs().at("x")).to(dtype);
    return by_head(torch::linear(x, numbers(weights.at(to).at("weight")).to(dtype), numbers(weights.at(to).at("bias")).to(dtype)),
                   shape.heads);
  };
  const Heads heads{projected("query"), projected("key"), projected("value")};
  findings.near(one.place("q"), heads.q, numbers(one.expected().at("q")), tolerance);
  findings.near(one.place("k"), heads.k, numbers(one.expected().at("k")), tolerance);
  findings.near(one.place("v"), heads.v, numbers(one.expected().at("v")), tolerance);

  const auto limit = p.at("max_position_embeddings").get<std::int64_t>();  // row limit − 1 is distance 0
  const std::string form = one.body->at("kind").get<std::string>().substr(std::string("shaw_").size());
  const auto scheme = scheme_with("shaw", {{"max_distance", limit - 1}, {"form", form}, {"values", false}}, shape, dtype,
                                  {{"keys", numbers(weights.at("distance_embedding")).slice(0, limit - 1)}});
  const Frame frame = decode_frame(heads.q.size(1), heads.k.size(1));
  with_attention(*scheme, heads, frame, [&](const Tensor& y) {
    findings.near(one.place("context"), merged(y), numbers(one.expected().at("context")), tolerance);
  });
  with_attention(*scheme, weighing(heads), frame, [&](const Tensor& probs) {
    findings.near(one.place("attn_probs"), probs, numbers(one.expected().at("attn_probs")), tolerance);
  });
}

/// fairseq2: clipped distances, row max_left is distance 0.
void check_shaw_clipped(Findings& findings, const Golden& golden, const Case& one, torch::ScalarType dtype) {
  const Json &p = one.params(), &weights = one.inputs().at("weights");
  const Tolerance tolerance = tolerance_of(golden, dtype);
  const auto farthest = p.at("max_left").get<std::int64_t>();
  const auto causal = [&](const char* table) { return numbers(weights.at(table)).slice(0, 0, farthest + 1).flip(0); };
  const bool values = !weights.at("rel_v").is_null();
  const auto built = [&](bool with_values) {
    std::vector<std::pair<std::string, Tensor>> tables = {{"keys", causal("rel_k")}};
    if (with_values) tables.emplace_back("values", causal("rel_v"));
    return scheme_with("shaw", {{"max_distance", farthest}, {"values", with_values}}, shape_of(p), dtype, tables);
  };
  const Heads heads = heads_of(one.inputs()).to(dtype);
  const Frame frame = decode_frame(heads.q.size(1), heads.k.size(1));
  const Tolerance single{golden.root.at("tolerance").at("fairseq2 out abs").get<double>(), 0};
  with_attention(*built(values), heads, frame, [&](const Tensor& y) {
    findings.near(one.place("out"), y, numbers(one.expected().at("out")), single);  // the peer's softmax is in float32
    findings.near(one.place("out_float64"), y, numbers(one.expected().at("out_float64")), tolerance);
  });
  with_attention(*built(false), weighing(heads), frame, [&](const Tensor& probs) {
    findings.near(one.place("attn_probs_float64"), probs, numbers(one.expected().at("attn_probs_float64")), tolerance);
  });
}

/// R [K, C] at the distances K − 1 … 0, as the scheme forms it: with one head as wide as the model, the identity for W, one query
/// e_c per channel and nothing else, the logits are R's column c over √C.
Tensor transformer_xl_sinusoids(std::int64_t width, std::int64_t keys, torch::ScalarType dtype, double spacing) {
  ModelShape shape;
  shape.d_model = shape.head_dim = width;
  const auto scheme = scheme_with("transformer_xl", Json::object(), shape, dtype, {{"projection", torch::eye(width)}});
  const Tensor q = torch::eye(width, dtype).view({width, 1, 1, width});
  const Content content{q, torch::zeros({width, 1, keys, width}, dtype), {}, {}};
  const Tensor s = scheme->score(torch::zeros({width, 1, 1, keys}, dtype), content, decode_frame(1, keys, spacing));
  return s.view({width, keys}).t() * std::sqrt(static_cast<double>(width));
}

/// The block around it is the peer's: memory, norm, residual.
void check_transformer_xl(Findings& findings, const Golden& golden, const Case& one, torch::ScalarType dtype, double spacing) {
  const Json &p = one.params(), &weights = one.inputs().at("weights");
  const Tolerance tolerance = tolerance_of(golden, dtype);
  const ModelShape shape = shape_of(p);
  const auto weight = [&](const char* name) { return numbers(weights.at(name)).to(dtype); };
  const auto norm = [&](const Tensor& t) {
    return torch::layer_norm(t, {t.size(-1)}, weight("ln_weight"), weight("ln_bias"), p.at("layer_norm_eps").get<double>());
  };
  const bool before = p.at("pre_lnorm").get<bool>();
  const Tensor x = numbers(one.inputs().at("x")).to(dtype);
  Tensor all = one.inputs().at("mems").is_null() ? x : torch::cat({numbers(one.inputs().at("mems")).to(dtype), x});  // [K, C]
  if (before) all = norm(all);
  const auto qkv = torch::linear(all, weight("qkv_net")).chunk(3, 1);
  const std::int64_t queries = p.at("T").get<std::int64_t>(), keys = all.size(0);
  findings.equal(one.pointer + "/params/mem_len", keys - queries, p.at("mem_len"));
  const Heads heads{by_head(qkv[0].slice(0, keys - queries), shape.heads), by_head(qkv[1], shape.heads),
                    by_head(qkv[2], shape.heads)};

  const auto scheme =
      scheme_with("transformer_xl", Json::object(), shape, dtype,
                  {{"projection", weight("r_net")}, {"content_bias", weight("r_w_bias")}, {"position_bias", weight("r_r_bias")}});
  const Frame frame = decode_frame(queries, keys, spacing);
  findings.near(one.place("r"), transformer_xl_sinusoids(shape.d_model, keys, dtype, spacing), numbers(one.expected().at("r")),
                tolerance);
  with_attention(*scheme, heads, frame, [&](const Tensor& y) {
    const Tensor out = x + torch::linear(merged(y), weight("o_net"));
    findings.near(one.place("out"), before ? out : norm(out), numbers(one.expected().at("out")), tolerance);
  });
  with_attention(*scheme, weighing(heads), frame, [&](const Tensor& probs) {
    findings.near(one.place("attn_probs"), probs, numbers(one.expected().at("attn_probs")), tolerance);
  });
}

/// Positions p [H, T, T] as the scheme counts them: with queries e_0 and a table of e[p] = p·e_0, p is what it adds.
Tensor cope_positions(const Heads& heads, std::int64_t rows, const Frame& frame) {
  const auto dtype = heads.q.scalar_type();
  ModelShape shape;
  shape.head_dim = heads.q.size(2);
  const Tensor first = torch::zeros({shape.head_dim}, dtype).index_fill(0, torch::zeros(1, torch::kInt64), 1);
  const auto scheme = scheme_with("cope", {{"max_positions", rows}, {"form", "paper"}}, shape, dtype,
                                  {{"table", torch::outer(torch::arange(rows, torch::TensorOptions(dtype)), first)}});
  const Tensor logits = torch::matmul(heads.q, heads.k.transpose(1, 2)) / std::sqrt(static_cast<double>(shape.head_dim));
  const Tensor s = logits.masked_fill(frame.unseen(), 0).unsqueeze(0);
  const Content content{first.expand_as(heads.q).unsqueeze(0), heads.k.unsqueeze(0), {}, {}};
  return (scheme->score(s, content, frame) - s)[0];
}

/// A layer of LeakyReLU(slope) units as twice as many of ReLU, and a unit that is always 1 for the output's bias: FIRE's network
/// has neither.
std::vector<std::pair<std::string, Tensor>> fire_network(const Json& mlp, double slope) {
  const Tensor w1 = numbers(mlp.at("w1")).flatten(), b1 = numbers(mlp.at("b1")), w2 = numbers(mlp.at("w2"));
  const Tensor zero = torch::zeros({1}, torch::kFloat64), one = torch::ones({1}, torch::kFloat64);
  return {{"over.hidden_weight", torch::cat({w1, -w1, zero})},
          {"over.hidden_bias", torch::cat({b1, -b1, one})},
          {"over.output_weight", torch::cat({w2, -slope * w2, numbers(mlp.at("b2")).unsqueeze(1)}, 1)}};
}

/// The settings of the scheme that a case corrects, and its parameters.
struct Over {
  Json settings;
  std::vector<std::pair<std::string, Tensor>> parameters;
  double tolerance = 0;  ///< 0: the file's for double
};

Over over_of(const Golden& golden, const Case& one) {
  const std::string kind = one.body->at("kind").get<std::string>();
  const Json& p = one.params();
  if (kind.rfind("alibi", 0) == 0) return {{{"scheme", "alibi"}}, {}};
  if (kind.rfind("kerple_log", 0) == 0) {
    return {{{"scheme", "kerple_log"}}, {{"over.r1", numbers(p.at("p"))}, {"over.r2", numbers(p.at("a"))}}};
  }
  if (kind.rfind("fire", 0) != 0) throw std::runtime_error("no scheme to correct in " + kind);
  double slope = 0;
  if (std::sscanf(p.at("fire_activation").get<std::string>().c_str(), "LeakyReLU(%lf)", &slope) != 1)
    throw std::runtime_error("no such activation: " + p.at("fire_activation").dump());
  Over over{{{"scheme", "fire"}, {"width", 2 * p.at("mlp_width").get<std::int64_t>() + 1}, {"init_length", p.at("init_L")}},
            fire_network(one.inputs().at("fire_mlp"), slope)};
  over.parameters.emplace_back("over.c", numbers(Json::array({p.at("c")})));
  over.parameters.emplace_back("over.length_factor", numbers(Json::array({p.at("L_multiplier")})));
  over.tolerance = std::stod(golden.root.at("tolerance").at("fire_dape_abs").get<std::string>());
  return over;
}

void check_dape(Findings& findings, const Golden& golden, const Case& one, torch::ScalarType dtype) {
  const Json& p = one.params();
  const Over over = over_of(golden, one);
  const bool convolutions = one.inputs().contains("conv");
  const Json& network = one.inputs().at(convolutions ? "conv" : "mlp");
  auto parameters = over.parameters;
  for (const auto& [ours, theirs] :
       {std::pair("hidden_weight", "w1"), std::pair("hidden_bias", "b1"), std::pair("output_weight", "w2")}) {
    parameters.emplace_back(ours, numbers(network.at(theirs)));
  }
  Json settings = {{"over", over.settings}, {"hidden", p.at("mlp_width")}};
  if (convolutions) settings["kernel"] = p.at("kernel");
  const auto scheme = scheme_with(convolutions ? "dape_v2" : "dape", settings, shape_of(p), dtype, parameters);

  Tolerance tolerance = tolerance_of(golden, dtype);
  tolerance.abs = std::max(tolerance.abs, over.tolerance);
  const Heads heads = heads_of(one.inputs()).to(dtype);
  const Frame frame = decode_frame(heads.q.size(1), heads.k.size(1));
  // The queries whose convolutions end before the last key; see schemes/dape.cpp.
  const std::int64_t queries = heads.q.size(1), alike = queries - (convolutions ? p.at("kernel").get<std::int64_t>() / 2 : 0);
  const auto compare = [&](const char* key, const Tensor& got) {
    findings.near(one.place(key), got.slice(1, 0, alike), numbers(one.expected().at(key)).slice(1, 0, alike), tolerance);
    for (std::int64_t h = 0; h < heads.q.size(0); ++h) {
      for (std::int64_t i = alike; i < queries; ++i) {
        findings.leave_out(one.place(key) + "/" + std::to_string(h) + "/" + std::to_string(i),
                           "ours on purpose: a query's weights do not depend on how many keys follow");
      }
    }
  };
  const Tensor logits = torch::matmul(heads.q, heads.k.transpose(1, 2)) / std::sqrt(static_cast<double>(heads.q.size(2)));
  const Tensor s = logits.masked_fill(frame.unseen(), 0).unsqueeze(0);
  const Tensor output_bias = numbers(network.at("b2")).view({-1, 1, 1});          // the same for all keys: ours has none
  const Tensor of_later_keys = numbers(one.expected().at("scores_out")).triu(1);  // anything
  compare("scores_out", seen(scheme->score(s, heads.content(), frame)[0] + output_bias) + of_later_keys);
  with_attention(*scheme, heads, frame, [&](const Tensor& y) { compare("out", y); });
  with_attention(*scheme, weighing(heads), frame, [&](const Tensor& probs) { compare("attn_probs", probs); });
}

}  // namespace

Findings check_attn_shaw(const Golden& golden) {
  Findings findings;
  for (const Case& one : cases(golden)) {
    const bool clipped = one.body->at("kind").get<std::string>().rfind("shaw_clipped", 0) == 0;
    for (const auto dtype : kBothTypes) (clipped ? check_shaw_clipped : check_shaw_bert)(findings, golden, one, dtype);
  }
  return findings;
}

Findings check_attn_transformer_xl(const Golden& golden) {
  Findings findings;
  for (const Case& one : cases(golden)) {
    for (const auto dtype : kBothTypes) {
      for (const double spacing : {1.0, 0.0}) check_transformer_xl(findings, golden, one, dtype, spacing);
    }
  }
  return findings;
}

Findings check_attn_cope(const Golden& golden) {
  Findings findings;
  for (const Case& one : cases(golden)) {
    const auto rows = one.params().at("npos").get<std::int64_t>();
    for (const auto dtype : kBothTypes) {
      const Tolerance tolerance = tolerance_of(golden, dtype);
      const Heads heads = heads_of(one.inputs()).to(dtype);
      const Frame frame = decode_frame(heads.q.size(1), heads.k.size(1));
      findings.near(one.place("positions"), seen(cope_positions(heads, rows, frame)), numbers(one.expected().at("positions")),
                    tolerance);
      for (const auto& [key, form] : {std::pair("divided", "divided"), std::pair("paper_listing", "paper")}) {
        const Json& want = one.expected().at(key);
        const auto scheme = scheme_with("cope", {{"max_positions", rows}, {"form", form}}, shape_of(one.params()), dtype,
                                        {{"table", numbers(one.inputs().at("pos_emb")).t().contiguous()}});
        with_attention(*scheme, heads, frame,
                       [&](const Tensor& y) { findings.near(one.place(key) + "/out", y, numbers(want.at("out")), tolerance); });
        with_attention(*scheme, weighing(heads), frame, [&](const Tensor& probs) {
          findings.near(one.place(key) + "/attn_probs", probs, numbers(want.at("attn_probs")), tolerance);
        });
      }
    }
  }
  return findings;
}

Findings check_attn_dape(const Golden& golden) {
  Findings findings;
  for (const Case& one : cases(golden)) {
    for (const auto dtype : kBothTypes) check_dape(findings, golden, one, dtype);
  }
  return findings;
}

}  // namespace posenc::golden
