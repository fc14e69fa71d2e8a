// The check of goldens about training: from a peer's weights, on its batches, our model must lose what it lost at every step.
#include <gtest/gtest.h>

#include <algorithm>

#include "golden/golden.h"
#include "golden/peer_models.h"
#include "train/optimizer.h"
#include "train/schedule.h"
#include "train/step.h"

namespace posenc::golden {
namespace {

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
  for (const auto& [name, tensor] : weights)
    all[name] = tensor.detach().to(torch::kFloat64, /*non_blocking=*/false, /*copy=*/true);
  return all;
}

Trace run(const Golden& golden, const Run& how) {
  const PeerModel peer = peer_model(golden);
  const auto model = make_model(peer.config, peer.vocab, peer.length, how.dtype);
  const Weights weights = peer_names(*model, peer);
  load(weights, peer.weights);
  // nanoGPT exempts vectors from the decay; the Llama runs have one group.
  const TrainConfig config = train_config(golden, peer.family == "nanogpt" ? "matrices" : "all");
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

/// As run; each training is done once for all copies of a golden that expect something else of it.
const Trace& trained(const Golden& golden, torch::ScalarType dtype) {
  static std::map<std::string, Trace> done;
  const std::string key =
      c10::str(golden.path.parent_path().string(), " ", dtype, golden.root.at("params").dump(), golden.root.at("inputs").dump());
  const auto at = done.find(key);
  return at != done.end() ? at->second : done.emplace(key, run(golden, {.dtype = dtype})).first->second;
}

Tensor column(const std::vector<double>& values) { return torch::tensor(values, torch::kFloat64); }

/// The mass of a tensor, for rounding errors that may all fall the same way.
double magnitude(const Tensor& p, bool squared) { return (squared ? p.square() : p.abs()).sum().item<double>(); }

/// Softmax does not see the bias of keys: its gradient is zero but for rounding, which Adam scales up to the size of other
/// updates. In float64 it stays far below its epsilon.
bool has_key_bias(const std::string& name) { return name.ends_with(".c_attn.bias"); }

/// Sums over each final parameter. In float64 they carry the file's tolerance for losses. In float32 every step rounds every
/// parameter once.
void check_sums(Findings& findings, const std::string& place, const Json& want, const Trace& trace, bool squared,
                double float64_abs) {
  findings.equal(place, want.size(), trace.end.size());
  for (const auto& [name, sum] : want.items()) {
    const Tensor& p = trace.end.at(name);
    if (trace.float32 && has_key_bias(name)) {
      findings.leave_out(place + "/" + name, "holds key biases, whose float32 gradient is rounding noise");
      continue;
    }
    const double got = (squared ? p.square() : p).sum().item<double>();
    const double roundings = static_cast<double>(trace.loss.size()) * (squared ? 2 : 1) * kFloat32Rounding;
    findings.near(place + "/" + name, got, sum.get<double>(),
                  {trace.float32 ? roundings * magnitude(p, squared) : float64_abs, 0});
  }
}

void check_run(Findings& findings, const Golden& golden, const Trace& trace) {
  const std::string format = trace.float32 ? "float32" : "float64", place = "/expected/" + format;
  const Json& want = golden.root.at("expected").at(format);
  const Json& tolerance = golden.root.at("tolerance");
  const double float64_abs = tolerance.at("loss_float64_abs").get<double>();
  findings.near(place + "/loss", column(trace.loss), numbers(want.at("loss")),
                {tolerance.at("loss_" + format + "_abs").get<double>(), 0});
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
  if (const std::string reason = peer_obstacle(golden); !reason.empty()) {
    findings.leave_out("", "not built: " + reason);
    return findings;
  }
  for (const auto dtype : {torch::kFloat32, torch::kFloat64}) {
    const Trace& trace = trained(golden, dtype);
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
    if (golden.kind == "train_trace" && peer_obstacle(golden).empty()) all.push_back(golden);
  }
  return all;
}

}  // namespace

// Fault 135 on whole trainings.
TEST(GoldenTraining, OneAndTwoThreadsTrainToTheSameBits) {
  if (traces().empty()) GTEST_SKIP() << "this set of goldens holds no training";
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
  if (traces().empty()) GTEST_SKIP() << "this set of goldens holds no training";
  for (const Golden& golden : traces()) {
    const double tolerance = golden.root.at("tolerance").at("loss_float64_abs").get<double>();
    const Trace& whole = trained(golden, torch::kFloat64);
    const Trace parts = run(golden, {.dtype = torch::kFloat64, .micro_batch = 1});
    for (std::size_t s = 0; s < whole.loss.size(); ++s) {
      EXPECT_NEAR(whole.loss[s], parts.loss[s], tolerance) << golden.path << " step " << s;
    }
  }
}

}  // namespace posenc::golden
