// The checks of goldens about whole models with weights: logits and perplexities of Hugging Face's models.
#include <gtest/gtest.h>

#include <cmath>

#include "core/files.h"
#include "eval/evaluate.h"
#include "golden/golden.h"
#include "model/hugging_face.h"
#include "train/checkpoint.h"

namespace posenc::golden {
namespace {

namespace fs = std::filesystem;

Document config_of(const fs::path& folder, const char* name = "config.json") { return load_json(folder / name); }

/// Why a model cannot be built here; "" when it can.
std::string obstacle(const fs::path& folder) {
  const Json type = config_of(folder).root.at("model_type");
  return type == "llama" ? "" : "not built: model_type " + type.get<std::string>();
}

std::shared_ptr<LanguageModel> peer(const fs::path& folder, torch::ScalarType dtype) {
  const HuggingFaceModel read = read_hugging_face(config_of(folder));
  const auto model = make_model(read.config, read.vocab, read.train_length, dtype);
  const fs::path weights = folder / "model.safetensors";
  load_model_tensors(from_hugging_face(read_safetensors(weights), read.config, weights.string()), weights.string(), *model);
  return model;
}

Tensor token_ids(const Json& list) { return numbers(list).to(torch::kInt64).unsqueeze(0); }

/// Logits [T, V] of a full pass, or one token at a time behind a prompt of three.
Tensor logits(const LanguageModel& model, const Tensor& tokens, bool with_cache) {
  const torch::NoGradGuard no_grad;
  Pass pass;
  if (!with_cache) return model.logits(model.hidden(tokens, pass))[0];
  KvCache cache;
  pass.cache = &cache;
  pass.window = tokens.size(1);
  std::vector<Tensor> hidden = {model.hidden(tokens.slice(1, 0, 3), pass)};
  for (std::int64_t t = 3; t < tokens.size(1); ++t) hidden.push_back(model.hidden(tokens.slice(1, t, t + 1), pass));
  return model.logits(torch::cat(hidden, 1))[0];
}

}  // namespace

Findings check_model(const Golden& golden) {
  Findings findings;
  const fs::path folder = golden.path.parent_path();
  if (const std::string reason = obstacle(folder); !reason.empty()) {
    findings.leave_out("", reason);
    return findings;
  }
  const Json& t = golden.root.at("tolerance");
  for (const auto& [dtype, name] : {std::pair(torch::kFloat32, "float32"), std::pair(torch::kFloat64, "float64")}) {
    const auto model = peer(folder, dtype);
    for (const Case& one : cases(golden)) {
      for (const auto& [key, unused] : one.expected().items()) {
        if (key.rfind("max_abs_logit_diff", 0) == 0 || key.rfind("hf_kv_cache", 0) == 0)
          findings.leave_out(one.place(key), "says how far the peer's own passes are apart");
      }
    }
    const Tolerance of_logits{t.at(std::string("logits_") + name + "_abs").get<double>(), 0},
        of_nll{t.at(std::string("mean_nll_") + name + "_abs").get<double>(), 0};
    for (const Case& one : cases(golden)) {
      const Tensor tokens = token_ids(one.inputs().at("tokens"));
      for (const bool with_cache : {false, true}) {
        const Tensor got = logits(*model, tokens, with_cache);
        findings.near(one.place(std::string("logits_") + name), got, numbers(one.expected().at(std::string("logits_") + name)),
                      of_logits);
        const Tensor nll = torch::nll_loss(torch::log_softmax(got.slice(0, 0, -1).to(torch::kFloat64), -1), tokens[0].slice(0, 1),
                                           {}, at::Reduction::None);
        findings.near(one.place(std::string("mean_nll_") + name), nll.mean().item<double>(),
                      one.expected().at(std::string("mean_nll_") + name).get<double>(), of_nll);
        if (dtype == torch::kFloat64)
          findings.near(one.place("nll_float64"), nll, numbers(one.expected().at("nll_float64")), of_logits);
      }
    }
  }
  return findings;
}

namespace {

/// −log p of every token that a window scores, by its index; the others stay NaN.
std::vector<double> nll_of_windows(const LanguageModel& model, const std::vector<std::int32_t>& tokens,
                                   const std::vector<EvalWindow>& windows) {
  EvalSettings settings;
  const auto scored = score_windows(model, tokens, windows, nullptr, settings);
  std::vector<double> nll(tokens.size(), std::nan(""));
  for (std::size_t w = 0; w < windows.size(); ++w) {
    for (std::size_t i = 0; i < scored[w].size(); ++i)
      nll.at(static_cast<std::size_t>(windows[w].begin + windows[w].first_scored + 1) + i) = scored[w][i];
  }
  return nll;
}

/// Compares the tokens that the peer scored; those it did not are null there and NaN or anything here.
void compare(Findings& findings, const std::string& place, const std::vector<double>& got, const Json& want,
             const Tolerance& tolerance) {
  std::vector<double> ours, theirs;
  for (std::size_t i = 0; i < want.size(); ++i) {
    if (want[i].is_null()) continue;
    ours.push_back(got.at(i));
    theirs.push_back(want[i].get<double>());
  }
  findings.near(place, torch::tensor(ours, torch::kFloat64), torch::tensor(theirs, torch::kFloat64), tolerance);
  if (got.size() != want.size()) findings.fail(place, "scores another number of tokens");
}

}  // namespace

Findings check_perplexity_models(const Golden& golden) {
  Findings findings;
  const Tolerance tolerance{golden.root.at("tolerance").at("float64_abs").get<double>(), 0},
      of_ppl{0, golden.root.at("tolerance").at("ppl_rel").get<double>()};
  for (const Case& one : cases(golden)) {
    const fs::path folder = golden.path.parent_path() / one.params().at("model_dir").get<std::string>();
    if (const std::string reason = obstacle(folder); !reason.empty()) {
      findings.leave_out(one.pointer, reason);
      continue;
    }
    const auto model = peer(folder, torch::kFloat64);
    const auto window = one.params().at("window").get<std::int64_t>(), stride = one.params().at("stride").get<std::int64_t>();
    const auto tokens = one.inputs().at("tokens").get<std::vector<std::int32_t>>();
    const auto count = static_cast<std::int64_t>(tokens.size());
    // Hugging Face's window holds its targets: 16 tokens are 15 inputs. At stride = window it leaves first tokens out.
    const Json& sliding = one.expected().at("sliding_hf");
    std::vector<EvalWindow> windows;
    for (const Json& w : sliding.at("windows")) {
      const auto begin = w.at("begin").get<std::int64_t>();
      windows.push_back({begin, w.at("end").get<std::int64_t>() - begin - 1, w.at("scored")[0].get<std::int64_t>() - begin - 1});
      findings.equal(one.place("sliding_hf") + "/windows/scored", w.at("scored")[1], w.at("end"));
    }
    const auto nll = nll_of_windows(*model, tokens, windows);
    compare(findings, one.place("sliding_hf") + "/nll_per_token", nll, sliding.at("nll_per_token"), tolerance);
    if (stride < window)  // then it is our protocol
      compare(findings, one.place("sliding_hf") + "/nll_per_token",
              nll_of_windows(*model, tokens, sliding_windows(count, window - 1, stride)), sliding.at("nll_per_token"), tolerance);
    double sum = 0;
    std::int64_t scored = 0;
    for (const double token : nll) {
      if (!std::isnan(token)) sum += token, ++scored;
    }
    const double mean = sum / static_cast<double>(scored);
    findings.equal(one.place("sliding_hf") + "/tokens_scored", scored, sliding.at("tokens_scored"));
    findings.near(one.place("sliding_hf") + "/mean_nll", mean, sliding.at("mean_nll").get<double>(), tolerance);
    findings.near(one.place("sliding_hf") + "/ppl", std::exp(mean), sliding.at("ppl").get<double>(), of_ppl);
    for (const char* kind : {"lm_eval_disjoint", "lm_eval_stride"}) {
      const Json& want = one.expected().at(kind);
      std::vector<std::int32_t> prefixed = {want.at("prefix_token").get<std::int32_t>()};
      prefixed.insert(prefixed.end(), tokens.begin(), tokens.end());
      // Its last window is filled up with tokens that were scored before, where ours is a short one.
      std::vector<EvalWindow> filled;
      std::int64_t end = 0;
      for (const Json& w : want.at("windows")) {
        const auto inputs = w.at("n_input").get<std::int64_t>(), targets = w.at("n_pred").get<std::int64_t>();
        end += targets;
        filled.push_back({end - inputs, inputs, inputs - targets});
      }
      auto rolling = nll_of_windows(*model, prefixed, filled);
      rolling.erase(rolling.begin());
      compare(findings, one.place(kind) + "/nll_per_token", rolling, want.at("nll_per_token"), tolerance);
      double total = 0;
      for (const double token : rolling) total += token;
      findings.near(one.place(kind) + "/loglikelihood", -total, want.at("loglikelihood").get<double>(),
                    {tolerance.abs * static_cast<double>(count), 0});
      findings.near(one.place(kind) + "/ppl", std::exp(total / static_cast<double>(count)), want.at("ppl").get<double>(), of_ppl);
      // But for that tail it is one of our protocols.
      const std::int64_t fresh = window - want.at("context_len").get<std::int64_t>() + 1;
      auto ours =
          nll_of_windows(*model, prefixed,
                         fresh == window ? nonoverlapping_windows(count + 1, window) : sliding_windows(count + 1, window, fresh));
      ours.erase(ours.begin());
      const auto full = static_cast<std::size_t>(end - filled.back().targets());
      ours.resize(full), rolling.resize(full);
      findings.near(one.place(kind) + "/context_len", torch::tensor(ours, torch::kFloat64),
                    torch::tensor(rolling, torch::kFloat64), tolerance);
    }
  }
  return findings;
}

TEST(HuggingFace, BothStylesOfConfigAreTheSameModel) {
  int compared = 0;
  for (const auto& entry : fs::directory_iterator(own_folder() / "models")) {
    if (!obstacle(entry.path()).empty()) continue;
    const HuggingFaceModel four = read_hugging_face(config_of(entry.path())),
                           five = read_hugging_face(config_of(entry.path(), "config.transformers5.json"));
    EXPECT_EQ(schema<ModelConfig>().write(four.config), schema<ModelConfig>().write(five.config)) << entry.path();
    EXPECT_EQ(four.train_length, five.train_length) << entry.path();
    ++compared;
  }
  EXPECT_EQ(compared, 7);
}

}  // namespace posenc::golden
