// The check of goldens about training: a peer's model, step by step from the same weights on the same batches, must lose what it lost.
#include <gtest/gtest.h>

#include <algorithm>

#include "core/files.h"
#include "core/safetensors.h"
#include "golden/golden.h"
#include "model/language_model.h"
#include "train/optimizer.h"
#include "train/schedule.h"
#include "train/step.h"

namespace posenc::golden {
namespace {

/// A peer's model as ours.
struct Setup {
  ModelConfig config;
  std::int64_t vocab = 0, length = 1;
  std::string decay;  ///< of TrainConfig
  std::filesystem::path weights;
};

/// Our parameters by the peer's names: views, so that they load and read alike.
using Weights = std::map<std::string, Tensor>;

ModelConfig model_config(const Json& json) {
  ModelConfig config = from_json<ModelConfig>(json);
  config.resolve();
  return config;
}

Setup nanogpt(const Golden& golden) {
  const Json& p = golden.root.at("params");
  const Json& m = p.at("model");
  if (m.at("dropout").get<double>() != 0) throw std::runtime_error("dropout has no golden: it draws random numbers");
  return {model_config({{"layers", m.at("n_layer")}, {"d_model", m.at("n_embd")}, {"heads", m.at("n_head")}, {"norm", "layernorm"}, {"norm_eps", 1e-5},
                        {"activation", "gelu"}, {"bias", m.at("bias")}, {"tie_embeddings", true}, {"position", "learned"}}),
          m.at("vocab_size").get<std::int64_t>(), m.at("block_size").get<std::int64_t>(), "matrices",
          golden.path.parent_path() / p.at("init_file").get<std::string>()};
}

Json hf_config(const Golden& golden) {
  const auto path = golden.path.parent_path() / "config.json";
  return parse_json(read_file(path), path.string()).root;
}

Setup llama(const Golden& golden) {
  const Json c = hf_config(golden);
  const std::int64_t heads = c.at("num_attention_heads").get<std::int64_t>();
  return {model_config({{"layers", c.at("num_hidden_layers")}, {"d_model", c.at("hidden_size")}, {"heads", heads},
                        {"kv_heads", c.value("num_key_value_heads", heads)}, {"head_dim", c.value("head_dim", Json())},
                        {"d_ff", c.at("intermediate_size")}, {"norm", "rmsnorm"}, {"norm_eps", c.at("rms_norm_eps")}, {"activation", "swiglu"},
                        {"bias", false}, {"tie_embeddings", c.at("tie_word_embeddings")},
                        {"position", {{"scheme", "rope"}, {"base", c.at("rope_theta")}}}}),
          c.at("vocab_size").get<std::int64_t>(), c.at("max_position_embeddings").get<std::int64_t>(), "all",
          golden.path.parent_path() / "model.safetensors"};
}

/// What keeps a trace from being run: "" when nothing does.
std::string obstacle(const Golden& golden) {
  if (golden.root.at("params").contains("model")) return "";
  const Json c = hf_config(golden);
  if (c.at("model_type") != "llama") return "model_type " + brief(c.at("model_type"));
  if (!c.value("rope_scaling", Json()).is_null()) return "rope_scaling " + brief(c.at("rope_scaling"));
  if (c.value("attention_bias", false) || c.value("mlp_bias", false)) return "biases in some layers only";
  return "";
}

Setup setup(const Golden& golden) { return golden.root.at("params").contains("model") ? nanogpt(golden) : llama(golden); }

Weights peer_names(const LanguageModel& model, const Setup& setup) {
  const auto ours = model.named_parameters();
  const ModelShape shape = setup.config.shape(setup.length);
  const std::int64_t q = shape.heads * shape.head_dim, k = q + shape.kv_heads * shape.head_dim;
  Weights w;
  const bool gpt = setup.config.norm == "layernorm";
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

void load(Weights& weights, const std::filesystem::path& path) {
  const torch::NoGradGuard no_grad;
  const TensorFile file = read_safetensors(path);
  if (file.tensors.size() != weights.size()) {
    throw std::runtime_error(path.string() + " holds " + std::to_string(file.tensors.size()) + " tensors, the model " + std::to_string(weights.size()));
  }
  for (const auto& [name, raw] : file.tensors) weights.at(name).copy_(torch::tensor(raw.to_double(), torch::kFloat64).reshape(raw.shape));
}

TrainConfig train_config(const Golden& golden, const std::string& decay) {
  const Json& p = golden.root.at("params");
  const Json& o = p.at("optimizer");
  TrainConfig c;
  c.lr = o.at("lr").get<double>();
  c.betas = {o.at("beta1").get<double>(), o.at("beta2").get<double>()};
  c.eps = o.value("eps", 1e-8);
  c.weight_decay = o.at("weight_decay").get<double>();
  c.grad_clip = o.at("grad_clip").get<double>();
  c.decay = decay;
  c.schedule = "constant";
  c.warmup = 0;
  if (const Json s = p.value("schedule", Json()); !s.is_null()) {  // nanoGPT's get_lr
    c.schedule = "cosine";
    c.lr = s.at("learning_rate").get<double>();
    c.min_lr = s.at("min_lr").get<double>();
    c.warmup = s.at("warmup_iters").get<std::int64_t>();
    c.steps = s.at("lr_decay_iters").get<std::int64_t>();
  }
  return c;
}

/// Inputs and targets [B, T] of one step.
std::pair<Tensor, Tensor> batch(const Json& json) {
  if (json.is_object()) return {numbers(json.at("x")).to(torch::kInt64), numbers(json.at("y")).to(torch::kInt64)};
  const Tensor tokens = numbers(json).to(torch::kInt64);  // [B, T+1]
  return {tokens.slice(1, 0, -1).contiguous(), tokens.slice(1, 1).contiguous()};
}

struct Trace {
  bool float32 = false;
  std::vector<double> lr, loss, grad_norm;
  Weights start, end;  ///< float64 copies
};

struct Run {
  torch::ScalarType dtype = torch::kFloat64;
  int threads = 1;
  std::int64_t micro_batch = 1 << 20;  ///< the whole batch
};

Weights copies(const Weights& weights) {
  Weights all;
  for (const auto& [name, tensor] : weights) all[name] = tensor.detach().to(torch::kFloat64, /*non_blocking=*/false, /*copy=*/true);
  return all;
}

Trace run(const Golden& golden, const Run& how) {
  const Setup s = setup(golden);
  const auto model = make_model(s.config, s.vocab, s.length, how.dtype);
  Weights weights = peer_names(*model, s);
  load(weights, s.weights);
  const TrainConfig config = train_config(golden, s.decay);
  AdamW optimizer(model->parameters(), config);
  Trace trace;
  trace.float32 = how.dtype == torch::kFloat32;
  trace.start = copies(weights);
  for (const Json& step : golden.root.at("inputs").at("batches")) {
    const auto [inputs, targets] = batch(step);
    trace.lr.push_back(learning_rate(config, static_cast<std::int64_t>(trace.lr.size())));
    StepOptions options;
    options.lr = trace.lr.back();
    options.grad_clip = config.grad_clip;
    options.micro_batch = std::min(how.micro_batch, inputs.size(0));
    options.threads = how.threads;
    const StepResult result = train_step(*model, optimizer, inputs, targets, options);
    trace.loss.push_back(result.loss);
    trace.grad_norm.push_back(result.grad_norm);
  }
  trace.end = copies(weights);
  return trace;
}

Tensor column(const std::vector<double>& values) { return torch::tensor(values, torch::kFloat64); }

/// The mass of a tensor, for rounding errors that may all fall the same way.
double magnitude(const Tensor& p, bool squared) { return (squared ? p.square() : p.abs()).sum().item<double>(); }

/// Softmax does not see the bias of keys: its gradient is zero but for rounding, which Adam scales up to the size of other updates. In float64 it stays
/// far below its epsilon.
bool has_key_bias(const std::string& name) { return name.ends_with(".c_attn.bias"); }

/// Sums over each final parameter. In float64 they carry the file's tolerance for losses. In float32 every step rounds every parameter once.
void check_sums(Findings& findings, const std::string& place, const Json& want, const Trace& trace, bool squared, double float64_abs) {
  findings.equal(place, want.size(), trace.end.size());
  for (const auto& [name, sum] : want.items()) {
    const Tensor& p = trace.end.at(name);
    if (trace.float32 && has_key_bias(name)) {
      findings.leave_out(place + "/" + name, "holds key biases, whose float32 gradient is rounding noise");
      continue;
    }
    const double got = (squared ? p.square() : p).sum().item<double>();
    const double roundings = static_cast<double>(trace.loss.size()) * (squared ? 2 : 1) * kFloat32Rounding;
    findings.near(place + "/" + name, got, sum.get<double>(), {trace.float32 ? roundings * magnitude(p, squared) : float64_abs, 0});
  }
}

void check_run(Findings& findings, const Golden& golden, const Trace& trace) {
  const std::string format = trace.float32 ? "float32" : "float64", place = "/expected/" + format;
  const Json& want = golden.root.at("expected").at(format);
  const Json& tolerance = golden.root.at("tolerance");
  const double float64_abs = tolerance.at("loss_float64_abs").get<double>();
  findings.near(place + "/loss", column(trace.loss), numbers(want.at("loss")), {tolerance.at("loss_" + format + "_abs").get<double>(), 0});
  // A float32 gradient is a sum of products in another order than the peer's: good to some dozen roundings.
  findings.near(place + "/grad_norm_before_clip", column(trace.grad_norm), numbers(want.at("grad_norm_before_clip")),
                trace.float32 ? Tolerance{0, 64 * kFloat32Rounding} : Tolerance{float64_abs, 0});
  for (const std::string key : {"final_param_sum", "final_param_sumsq"}) {
    if (want.contains(key)) check_sums(findings, place + "/" + key, want.at(key), trace, key == "final_param_sumsq", float64_abs);
  }
}

}  // namespace

Findings check_train_trace(const Golden& golden) {
  Findings findings;
  if (const std::string reason = obstacle(golden); !reason.empty()) {
    findings.leave_out("", "not built: " + reason);
    return findings;
  }
  for (const auto dtype : {torch::kFloat32, torch::kFloat64}) {
    const Trace trace = run(golden, {.dtype = dtype});
    if (dtype == torch::kFloat64 && golden.root.at("expected").contains("lr")) {
      findings.near("/expected/lr", column(trace.lr), numbers(golden.root.at("expected").at("lr")), {});
    }
    check_run(findings, golden, trace);
  }
  return findings;
}

namespace {

std::vector<Golden> traces() {
  std::vector<Golden> all;
  for (const Golden& golden : goldens().goldens) {
    if (golden.kind == "train_trace" && obstacle(golden).empty()) all.push_back(golden);
  }
  return all;
}

}  // namespace

// Fault 135 on whole trainings.
TEST(GoldenTraining, OneAndTwoThreadsTrainToTheSameBits) {
  for (const Golden& golden : traces()) {
    const Trace one = run(golden, {.dtype = torch::kFloat32, .threads = 1, .micro_batch = 1});
    const Trace two = run(golden, {.dtype = torch::kFloat32, .threads = 2, .micro_batch = 1});
    EXPECT_EQ(one.loss, two.loss) << golden.path;
    EXPECT_EQ(one.grad_norm, two.grad_norm) << golden.path;
    for (const auto& [name, p] : one.end) {
      EXPECT_TRUE(p.equal(two.end.at(name))) << golden.path << " " << name;
      EXPECT_FALSE(p.equal(one.start.at(name))) << golden.path << " " << name << " did not move";
    }
  }
}

TEST(GoldenTraining, MicroBatchesLoseWhatTheWholeBatchDoes) {
  for (const Golden& golden : traces()) {
    const double tolerance = golden.root.at("tolerance").at("loss_float64_abs").get<double>();
    const Trace whole = run(golden, {.dtype = torch::kFloat64}), parts = run(golden, {.dtype = torch::kFloat64, .micro_batch = 1});
    for (std::size_t s = 0; s < whole.loss.size(); ++s) EXPECT_NEAR(whole.loss[s], parts.loss[s], tolerance) << golden.path << " step " << s;
  }
}

}  // namespace posenc::golden
