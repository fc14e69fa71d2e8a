// The checks of goldens about biases that a scheme learns or computes from distances: KERPLE, Sandwich, FIRE, dynamic position
// bias.
#include <algorithm>
#include <cmath>
#include <limits>

#include "golden/golden.h"
#include "model/attention.h"
#include "schemes/scheme.h"

namespace posenc::golden {
namespace {

/// The frame of the last `queries` of `keys` tokens.
Frame last_queries(std::int64_t queries, std::int64_t keys) {
  const Tensor positions = torch::arange(keys, torch::kFloat64);
  return {{positions.slice(0, keys - queries), 1}, {positions, 1}, keys - queries, keys};
}

/// Zero where the key is in the query's future, which a causal model masks.
Tensor seen(const Tensor& bias) { return bias.tril(bias.size(-1) - bias.size(-2)); }

/// The scheme's bias in `dtype`, plus `shift` for each head: for every pair, as masked_bias gives it, and by blocks of 3 queries.
void check_bias(Findings& findings, const std::string& place, const Scheme& scheme, const Frame& frame, const Tensor& want,
                torch::ScalarType dtype, double tolerance, const Tensor& shift = torch::zeros({1}, torch::kFloat64)) {
  const torch::NoGradGuard no_grad;
  const auto compare = [&](const Tensor& bias) {
    findings.near(place, seen(bias.to(dtype).to(torch::kFloat64) + shift.view({-1, 1, 1})), seen(want), {tolerance, 0});
  };
  compare(scheme.bias(frame));
  compare(masked_bias(scheme, frame, dtype));
  std::vector<Tensor> blocks;
  for (std::int64_t begin = 0; begin < frame.query_count(); begin += 3) {
    Frame block = frame;
    block.queries = frame.queries.slice(begin, std::min(begin + 3, frame.query_count()));
    block.first_query = frame.first_query + begin;
    blocks.push_back(masked_bias(scheme, block, dtype));
  }
  compare(torch::cat(blocks, 1));
}

/// Runs `check(dtype, tolerance)` in both precisions, at the file's tolerances.
template <class Check>
void in_both_precisions(const Golden& golden, Check check) {
  const Json& tolerance = golden.root.at("tolerance");
  check(torch::kFloat32, tolerance.at("float32_abs").get<double>());
  check(torch::kFloat64, tolerance.at("float64_abs").get<double>());
}

/// The scheme in `dtype`, with `values` for its parameters.
std::shared_ptr<Scheme> filled(const std::string& name, const Json& parameters, const ModelShape& shape, torch::ScalarType dtype,
                               const std::vector<std::pair<std::string, Tensor>>& values) {
  const auto scheme = make_scheme(name, parameters, shape);
  scheme->to(dtype);
  const torch::NoGradGuard no_grad;
  for (const auto& [parameter, value] : values) {
    Tensor& p = scheme->named_parameters()[parameter];
    p.copy_(value.view_as(p));
  }
  return scheme;
}

/// Logits that come out of q·kᵀ/√D as `scores` [H, T, T], through both paths of attention: the weights against those of `want`.
void check_scores(Findings& findings, const std::string& place, const Scheme& scheme, const Tensor& scores, const Tensor& want,
                  torch::ScalarType dtype, double tolerance) {
  const torch::NoGradGuard no_grad;
  const auto heads = scores.size(0), length = scores.size(1);
  const Frame frame = last_queries(length, length);
  findings.near(place, seen(scheme.score(scores.to(dtype).unsqueeze(0), {}, frame)[0]), seen(want), {tolerance, 0});
  const Tensor identity = torch::eye(length, dtype).expand({1, heads, length, length});
  const Content content{(scores * std::sqrt(static_cast<double>(length))).to(dtype).unsqueeze(0), identity, identity,
                        torch::zeros({1, length, 1}, dtype)};
  const Tensor weights = torch::softmax(want.masked_fill(frame.unseen(), -std::numeric_limits<double>::infinity()), -1);
  // A weight moves by at most a quarter of what its logit does, and the expected logits are rounded.
  const double rounded = tolerance + kRounding * want.abs().max().item<double>();
  for (const auto path : {AttentionPath::kReference, AttentionPath::kBlocked, AttentionPath::kFused}) {
    const AttentionPlan plan(scheme, {.content_dependent = true}, frame, {path, dtype, 1, heads, /*block_rows=*/3});
    findings.near(place, plan({content.q, content.k, content.v, content.x})[0], weights, {rounded, 0});
  }
}

}  // namespace

Findings check_bias_kerple(const Golden& golden) {
  Findings findings;
  for (const Case& one : cases(golden)) {
    const Json& p = one.params();
    const std::string kind = one.body->at("kind").get<std::string>();
    if (p.value("eps_clamp", 0.01) != 0.01 || p.value("p_max", 2.0) != 2) {
      findings.leave_out(one.pointer, "not built: other limits than 0.01 and 2");
      continue;
    }
    const bool log = kind.rfind("log", 0) == 0;
    const Tensor first = numbers(p.at(log ? "p" : "a")), second = numbers(p.at(log ? "a" : "p"));
    const ModelShape shape{.heads = p.at("n_heads").get<std::int64_t>()};
    const auto length = p.at("T").get<std::int64_t>();
    in_both_precisions(golden, [&](torch::ScalarType dtype, double tolerance) {
      if (kind == "power_weight") {
        const auto scheme =
            filled("kerple_power_weight", Json::object(), shape, dtype,
                   {{"r1", first}, {"r2", second}, {"w1", numbers(p.at("wei_a"))}, {"w2", numbers(p.at("wei_p"))}});
        check_scores(findings, one.place("scores_out"), *scheme, numbers(one.inputs().at("scores_in")),
                     numbers(one.expected().at("scores_out")), dtype, tolerance);
        return;
      }
      const auto scheme =
          filled(log ? "kerple_log" : "kerple_power", Json::object(), shape, dtype, {{"r1", first}, {"r2", second}});
      check_bias(findings, one.place("bias"), *scheme, last_queries(length, length), numbers(one.expected().at("bias")), dtype,
                 tolerance);
      scheme->constrain();
      const Json& clamped = one.expected().at("param_after_clamp");
      for (const auto& [name, key] : {std::pair("r1", log ? "p" : "a"), std::pair("r2", log ? "a" : "p")}) {
        findings.near(one.place("param_after_clamp"), scheme->named_parameters()[name], numbers(clamped.at(key)), {tolerance, 0});
      }
    });
  }
  return findings;
}

Findings check_bias_sandwich(const Golden& golden) {
  Findings findings;
  for (const Case& one : cases(golden)) {
    const Json& p = one.params();
    const auto length = p.at("T").get<std::int64_t>();
    const auto scheme = make_scheme("sandwich", {{"d_bar", p.at("d_bar")}}, {.heads = p.at("n_heads").get<std::int64_t>()});
    in_both_precisions(golden, [&](torch::ScalarType dtype, double tolerance) {
      const std::string key = dtype == torch::kFloat64 ? "bias_float64" : "bias_float32";
      const Tensor want = numbers(one.expected().at(key));
      const Frame frame = last_queries(length, length);
      check_bias(findings, one.place(key), *scheme, frame, want, dtype, tolerance);
      // At distance 0 all cosines are 1 and the sum is exact in either precision.
      findings.near(one.place(key), scheme->bias(frame).diagonal(0, 1, 2), want.diagonal(0, 1, 2), {});
    });
  }
  return findings;
}

Findings check_bias_fire(const Golden& golden) {
  Findings findings;
  for (const Case& one : cases(golden)) {
    const Json &p = one.params(), &w = one.inputs().at("weights");
    if (p.at("eps").get<double>() != 1e-6) {
      findings.leave_out(one.pointer, "not built: another eps than 1e-6");
      continue;
    }
    const auto length = p.at("T").get<std::int64_t>();
    in_both_precisions(golden, [&](torch::ScalarType dtype, double tolerance) {
      const std::string key = dtype == torch::kFloat64 ? "bias_float64" : "bias_float32";
      const auto scheme = filled("fire", {{"width", p.at("mlp_width")}, {"init_length", p.at("init_L")}},
                                 {.heads = p.at("n_heads").get<std::int64_t>(), .train_length = length}, dtype,
                                 {{"c", numbers(p.at("c"))},
                                  {"length_factor", numbers(p.at("L_multiplier"))},
                                  {"hidden_weight", numbers(w.at("w1"))},
                                  {"hidden_bias", numbers(w.at("b1"))},
                                  {"output_weight", numbers(w.at("w2"))}});
      // b2 shifts the logits of a head alike; we have none.
      check_bias(findings, one.place(key), *scheme, last_queries(length, length), numbers(one.expected().at(key)), dtype,
                 tolerance, numbers(w.at("b2")));
    });
  }
  return findings;
}

Findings check_dynamic_position_bias(const Golden& golden) {
  Findings findings;
  for (const Case& one : cases(golden)) {
    const Json &p = one.params(), &layers = one.inputs().at("layers");
    std::vector<std::pair<std::string, Tensor>> values;
    for (std::size_t l = 0; l < layers.size(); ++l) {
      values.emplace_back("weight_" + std::to_string(l), numbers(layers.at(l).at("weight")));
      if (l + 1 < layers.size()) values.emplace_back("bias_" + std::to_string(l), numbers(layers.at(l).at("bias")));
    }
    in_both_precisions(golden, [&](torch::ScalarType dtype, double tolerance) {
      const std::string key = dtype == torch::kFloat64 ? "bias_float64" : "bias_float32";
      const auto scheme =
          filled("dynamic", {{"depth", p.at("depth")}, {"width", p.at("dim")}, {"log_distance", p.at("log_distance")}},
                 {.heads = p.at("heads").get<std::int64_t>()}, dtype, values);
      // The last layer's bias shifts the logits of a head alike; we have none.
      check_bias(findings, one.place(key), *scheme,
                 last_queries(p.at("T_q").get<std::int64_t>(), p.at("T_k").get<std::int64_t>()), numbers(one.expected().at(key)),
                 dtype, tolerance, numbers(layers.back().at("bias")));
    });
  }
  return findings;
}

}  // namespace posenc::golden
