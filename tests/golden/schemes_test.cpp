// The checks of goldens about single schemes: ALiBi, T5, sinusoidal, RoPE.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <optional>

#include "extend/extension.h"
#include "golden/golden.h"
#include "model/attention.h"
#include "model/hugging_face.h"
#include "schemes/alibi.h"
#include "schemes/rope.h"
#include "schemes/scheme.h"
#include "schemes/sinusoidal.h"
#include "schemes/t5.h"

namespace posenc::golden {
namespace {

constexpr torch::ScalarType kBothTypes[] = {torch::kFloat32, torch::kFloat64};

/// The frame of `queries` that end where the `keys` (from position 0) end.
Frame decode_frame(std::int64_t queries, std::int64_t keys) {
  const Tensor positions = torch::arange(keys, torch::kFloat64);
  return {{positions.slice(0, keys - queries), 1}, {positions, 1}, keys - queries, keys};
}

/// Zero where the key is in the query's future: the peers differ there, and a causal model masks it.
Tensor seen(const Tensor& bias) {
  const auto queries = bias.size(-2), keys = bias.size(-1);
  return bias.tril(keys - queries);
}

/// The scheme's bias by both of its ways, dense and as one row per head, in `dtype`.
void check_bias(Findings& findings, const std::string& place, const Scheme& scheme, const Json& p, const Tensor& want,
                torch::ScalarType dtype, const Tolerance& tolerance) {
  const torch::NoGradGuard no_grad;
  const Frame frame = decode_frame(p.at("T_q").get<std::int64_t>(), p.at("T_k").get<std::int64_t>());
  findings.near(place, seen(scheme.bias(frame).to(dtype)), seen(want), tolerance);
  findings.near(place, seen(masked_bias(scheme, frame, dtype)), seen(want), tolerance);
}

/// Runs `scheme`'s rotation on x [H, T, D] at the positions [T].
/// A Hugging Face rope_scaling as ours, ready to use; none where it is null or changes nothing.
struct Scaling {
  std::unique_ptr<Extension> extension;
  RopeScaling read;
  Scaling(const Json& given, std::int64_t max_positions, std::optional<std::int64_t> original = {})
      : read(read_rope_scaling(given, max_positions, original)) {
    if (read.extension.is_null()) return;
    extension = make_extension(*from_json<ModelConfig>({{"position", "rope"}, {"extension", read.extension}}).extension);
  }
  /// In a window of `length`; position interpolation, which moves positions instead, as the frequencies it comes to.
  Frequencies scaled(const Frequencies& by, std::int64_t length) const {
    if (!extension) return by;
    const Lengths lengths{read.trained_length, length};
    Frequencies scaled = extension->frequencies(by, lengths);
    scaled.inv_freq = scaled.inv_freq * extension->remap({torch::ones({1}, torch::kFloat64), 1}, lengths).values;
    return scaled;
  }
};

Tensor rotated(const Scheme& scheme, const Json& x, const Frame& frame, torch::ScalarType dtype) {
  return scheme.rotate(numbers(x).to(dtype).unsqueeze(0), Side::kQuery, frame).squeeze(0);
}

/// The file's tolerance against HF's float32 numbers up to position 1000.
constexpr double kFloat32Near = 3e-6, kLastNearPosition = 1000;

/// How far angles of float32 frequencies may be off, [T, D]: of position·inv_freq by the rounding of inv_freq and of the product,
/// unless inv_freq is 1.
Tensor float32_drift(const Tensor& positions, const Tensor& inv_freq, std::int64_t head_dim, bool interleaved) {
  const Tensor turned = interleaved ? inv_freq.repeat_interleave(2) : torch::cat({inv_freq, inv_freq});
  const Tensor each = torch::cat({turned, torch::zeros(head_dim - turned.size(0), torch::kFloat64)});
  return torch::outer(positions, each * (each < 1)) * 2 * kFloat32Rounding;
}

}  // namespace

Findings check_alibi_slopes(const Golden& golden) {
  Findings findings;
  const Tolerance tolerance{0, golden.root.at("tolerance").at("rel").get<double>()};
  const auto slopes = [](std::int64_t heads, double bias_max) {
    return torch::tensor(alibi_slopes(heads, bias_max), torch::kFloat64);
  };
  for (const Case& one : cases(golden)) {
    for (const auto& [heads, want] : one.expected().at("slopes_by_n_heads").items()) {
      findings.near(one.place("slopes_by_n_heads") + "/" + heads, slopes(std::stoll(heads), 8), numbers(want), tolerance);
    }
    if (!one.expected().contains("hf_mpt_alibi_bias_max")) continue;
    for (const auto& [key, want] : one.expected().at("hf_mpt_alibi_bias_max").items()) {
      long long heads = 0;
      double bias_max = 0;
      const std::string place = one.place("hf_mpt_alibi_bias_max") + "/" + key;
      if (std::sscanf(key.c_str(), "n=%lld,alibi_bias_max=%lf", &heads, &bias_max) != 2)
        findings.fail(place, "names no head count and bias_max");
      else findings.near(place, slopes(heads, bias_max), numbers(want), tolerance);
    }
  }
  return findings;
}

Findings check_bias_alibi(const Golden& golden) {
  Findings findings;
  const Tolerance tolerance{golden.root.at("tolerance").at("abs").get<double>(), 0};
  for (const Case& one : cases(golden)) {
    ModelShape shape;
    shape.heads = one.params().at("n_heads").get<std::int64_t>();
    const auto scheme = make_scheme("alibi", Json::object(), shape);
    for (const auto dtype : kBothTypes)
      check_bias(findings, one.place("bias"), *scheme, one.params(), numbers(one.expected().at("bias")), dtype, tolerance);
  }
  return findings;
}

Findings check_bias_t5(const Golden& golden) {
  Findings findings;
  for (const Case& one : cases(golden)) {
    const Json& p = one.params();
    const auto buckets = p.at("num_buckets").get<std::int64_t>(), max_distance = p.at("max_distance").get<std::int64_t>();
    const Tensor want = numbers(one.expected().at("bias"));  // rows of the table, rounded to float32
    const Tensor table = numbers(one.inputs().at("table"));  // [buckets, H]
    if (p.at("bidirectional").get<bool>()) {
      const auto queries = p.at("T_q").get<std::int64_t>(), keys = p.at("T_k").get<std::int64_t>();
      Tensor got = torch::empty_like(want);  // [H, Q, K]
      for (std::int64_t i = 0; i < queries; ++i) {
        for (std::int64_t j = 0; j < keys; ++j) {
          got.select(1, i).select(1, j).copy_(table[t5_bucket(j - (keys - queries + i), buckets, max_distance, true)]);
        }
      }
      findings.near(one.place("bias"), got.to(torch::kFloat32), want, {});
      continue;
    }
    for (const auto dtype : kBothTypes) {
      ModelShape shape;
      shape.heads = p.at("n_heads").get<std::int64_t>();
      const auto scheme = make_scheme("t5", {{"buckets", buckets}, {"max_distance", max_distance}}, shape);
      scheme->to(dtype);
      const torch::NoGradGuard no_grad;
      scheme->named_parameters()["table"].copy_(table);
      const double rel = dtype == torch::kFloat64 ? kFloat32Rounding : 0;  // the expected numbers are float32
      check_bias(findings, one.place("bias"), *scheme, p, want, dtype, {0, rel});
    }
  }
  return findings;
}

Findings check_t5_buckets(const Golden& golden) {
  Findings findings;
  for (const Case& one : cases(golden)) {
    const Json& in = one.inputs();
    const auto bucket = [&](std::int64_t relative) {
      return t5_bucket(relative, in.at("num_buckets").get<std::int64_t>(), in.at("max_distance").get<std::int64_t>(),
                       in.at("bidirectional").get<bool>());
    };
    const auto first = in.at("relative_position_first").get<std::int64_t>(),
               step = in.at("relative_position_step").get<std::int64_t>();
    const Json& want = one.expected().at("bucket");
    for (std::size_t i = 0; i < want.size(); ++i) {
      const std::int64_t relative = first + static_cast<std::int64_t>(i) * step;
      findings.equal(one.place("bucket") + "/" + std::to_string(i), bucket(relative), want.at(i));
    }
    const Json &extra = in.at("extra_relative_position"), &extra_want = one.expected().at("extra_bucket");
    findings.equal(one.place("extra_bucket"), extra.size(), extra_want.size());
    for (std::size_t i = 0; i < extra.size(); ++i) {
      findings.equal(one.place("extra_bucket") + "/" + std::to_string(i), bucket(extra.at(i).get<std::int64_t>()),
                     extra_want.at(i));
    }
    // Exact boundaries: the upper bucket begins there, where the plain formula in double still says the lower one.
    for (const Json& boundary : one.expected().value("plain_float64_formula_differs_at", Json::array())) {
      const auto distance = boundary.at("distance").get<std::int64_t>();
      findings.equal(one.place("plain_float64_formula_differs_at"), bucket(-distance), boundary.at("hf"));
      findings.equal(one.place("plain_float64_formula_differs_at"), bucket(-(distance - 1)),
                     boundary.at("plain_float64_formula"));
    }
  }
  return findings;
}

Findings check_sinusoidal(const Golden& golden) {
  struct Variant {
    const char *name, *layout, *frequencies;
    torch::ScalarType dtype;
    bool float32_angles;  ///< the peer forms angles in float32: off by up to 6e-8 of the position (the file's tolerance)
  };
  constexpr Variant kVariants[] = {
      {"vaswani_interleaved", "interleaved", "paper", torch::kFloat32, false},
      {"vaswani_interleaved_float64", "interleaved", "paper", torch::kFloat64, false},
      {"vaswani_concat_hf_marian", "concat", "paper", torch::kFloat32, false},
      {"fairseq_concat", "concat", "tensor2tensor", torch::kFloat32, true},
      {"fairseq_concat_float64", "concat", "tensor2tensor", torch::kFloat64, false},
      {"fairseq_with_padding_idx", "concat", "tensor2tensor", torch::kFloat32, true},
      {"x_transformers_scaled_concat", "concat", "paper", torch::kFloat32, true},
  };
  constexpr double kFloat64Absolute = 1e-9;  // the file's tolerance for the *_float64 formulas
  Findings findings;
  const double absolute = golden.root.at("tolerance").at("abs").get<double>();
  for (const Case& one : cases(golden)) {
    ModelShape shape;
    shape.d_model = one.inputs().at("dim").get<std::int64_t>();
    for (const auto& [key, want] : one.expected().items()) {
      int padding_idx = 0;
      const bool padded = std::sscanf(key.c_str(), "fairseq_with_padding_idx_%d", &padding_idx) == 1;
      const auto* variant = std::find_if(std::begin(kVariants), std::end(kVariants), [&](const Variant& v) {
        return padded ? std::string(v.name) == "fairseq_with_padding_idx" : key == v.name;
      });
      if (variant == std::end(kVariants)) {
        findings.leave_out(one.place(key), "not built: no such variant of sinusoidal");
        continue;
      }
      // fairseq keeps the row of padding_idx for padding and starts after it: token p is row p + padding_idx + 1.
      const Tensor positions = numbers(one.inputs().at("positions")) + (padded ? padding_idx + 1 : 0);
      const auto scheme = make_scheme(
          "sinusoidal", {{"layout", variant->layout}, {"frequencies", variant->frequencies}, {"token_scale", false}}, shape);
      Tensor got = scheme->embed(torch::zeros({1, positions.size(0), shape.d_model}, variant->dtype),
                                 {{positions, 0}, {positions, 0}, 0, 1})[0];
      if (key == "x_transformers_scaled_concat") got = got / std::sqrt(static_cast<double>(shape.d_model));  // its initial scale
      const double base = variant->dtype == torch::kFloat64 ? kFloat64Absolute : absolute;
      findings.near_each(one.place(key), got, numbers(want),
                         base + (variant->float32_angles ? 6e-8 : 0) * positions.unsqueeze(1));
    }
  }
  return findings;
}

Findings check_rope_apply(const Golden& golden) {
  constexpr double kCastToFloat32 = 1e-5;  // angles in float64, then a cast: the file's tolerance against q_float64
  Findings findings;
  const double float64_abs = golden.root.at("tolerance").at("float64_abs").get<double>();
  for (const Case& one : cases(golden)) {
    const Json& p = one.params();
    const Json given = p.value("rope_scaling", Json());
    const Scaling scaling(given, given.is_null() ? 1 : given.at("max_position_embeddings").get<std::int64_t>());
    const auto width = p.at("rotary_dim").get<double>(), base = p.at("rope_theta").get<double>();
    ModelShape shape;
    shape.head_dim = p.at("head_dim").get<std::int64_t>();
    const auto all = static_cast<double>(shape.head_dim);
    // Any share that cuts to `width` dims.
    const auto scheme = make_scheme(
        "rope", {{"base", base}, {"partial", width == all ? 1.0 : (width + 0.5) / all}, {"layout", one.body->at("layout")}},
        shape);
    const Tensor positions = numbers(one.inputs().at("positions"));
    Frame frame{{positions, 0}, {positions, 0}};
    frame.rescale = [&](const Frequencies& by, std::int64_t keys) { return scaling.scaled(by, keys); };
    const Frequencies used =
        frame.rescaled({torch::tensor(rope_inv_freq(static_cast<std::int64_t>(width), base), torch::kFloat64), base});
    findings.near(one.pointer + "/params/attention_factor", used.magnitude, p.value("attention_factor", 1.0), {});
    const Tensor drift =
        float32_drift(positions, used.inv_freq, shape.head_dim, one.body->at("layout") == "interleaved");  // [T, D]
    for (const std::string x : {"q", "k"}) {
      const Json& in = one.inputs().at(x);
      const Tensor exact = rotated(*scheme, in, frame, torch::kFloat64), cast = rotated(*scheme, in, frame, torch::kFloat32);
      const Tensor want = numbers(one.expected().at(x + "_float64"));
      const Tensor off = std::sqrt(2.0) * used.magnitude * numbers(in).abs().amax(-1, true) * drift;  // [H, T, D]
      // The scaled frequencies behind the file's float64 numbers are float32.
      findings.near_each(one.place(x + "_float64"), exact, want, float64_abs + (scaling.extension ? off : torch::zeros({1})));
      findings.near_each(one.place(x + "_float64"), cast, want, kCastToFloat32 + (scaling.extension ? off : torch::zeros({1})));
      const Tensor beyond = (positions > kLastNearPosition).unsqueeze(1);
      findings.near_each(one.place(x + "_float32"), cast, numbers(one.expected().at(x + "_float32")),
                         kFloat32Near + off * beyond);
    }
  }
  return findings;
}

Findings check_rope_inv_freq(const Golden& golden) {
  Findings findings;
  const Json& t = golden.root.at("tolerance");
  const Tolerance float32{0, t.at("rel_vs_inv_freq").get<double>()},
      formula{0, t.at("rel_vs_inv_freq_float64_formula").get<double>()};
  for (const Case& one : cases(golden)) {
    const Json& in = one.inputs();
    const Json original = in.at("original_max_position_embeddings");
    const Scaling scaling(in.at("rope_scaling"), in.at("max_position_embeddings").get<std::int64_t>(),
                          original.is_null() ? std::nullopt : std::optional(original.get<std::int64_t>()));
    const double share = in.at("partial_rotary_factor").is_null() ? 1.0 : in.at("partial_rotary_factor").get<double>();
    const auto width = static_cast<std::int64_t>(in.at("head_dim").get<double>() * share);
    const double base = in.at("rope_theta").get<double>();
    const Frequencies got =
        scaling.scaled({torch::tensor(rope_inv_freq(width, base, scaling.read.proportional), torch::kFloat64), base},
                       in.at("seq_len").is_null() ? 1 : in.at("seq_len").get<std::int64_t>());
    findings.near(one.place("inv_freq"), got.inv_freq, numbers(one.expected().at("inv_freq")), float32);
    findings.near(one.place("inv_freq_float64_formula"), got.inv_freq, numbers(one.expected().at("inv_freq_float64_formula")),
                  formula);
    findings.near(one.place("attention_factor"), got.magnitude, one.expected().at("attention_factor").get<double>(),
                  {0, t.at("attention_factor_rel").get<double>()});
  }
  return findings;
}

namespace {

/// What a case of the YaRN repository comes to here; null when it is no case we know.
Json yarn_repository_extension(const std::string& name, const Json& p) {
  if (name == "ntk_static") return {{"method", "ntk"}, {"factor", p.at("alpha")}};
  if (name == "part_ntk") return {{"method", "ntk_parts"}, {"factor", p.at("scale")}, {"ramp", "early"}};
  if (name == "dynamic_ntk_alpha1") return {{"method", "dynamic_ntk"}, {"factor", p.at("ntk")}};
  if (name == "dynamic_yarn") return {{"method", "yarn"}, {"beta_fast", p.at("beta_fast")}, {"beta_slow", p.at("beta_slow")}};
  if (name == "yarn_attn_factor")  // their factor multiplies the magnitude, ours replaces it
    return {{"method", "yarn"},
            {"factor", p.at("scale")},
            {"attention_factor", (0.1 * std::log(p.at("scale").get<double>()) + 1) * p.at("attn_factor").get<double>()}};
  return nullptr;
}

}  // namespace

Findings check_rope_inv_freq_yarn_repo(const Golden& golden) {
  Findings findings;
  const Tolerance tolerance{0, golden.root.at("tolerance").at("rel").get<double>()};
  for (const Case& one : cases(golden)) {
    const Json& p = one.params();
    const Json named = yarn_repository_extension(one.body->at("name").get<std::string>(), p);
    const bool plain = p.value("ntk_factor", 1.0) == 1 && p.value("extrapolation_factor", 1.0) == 1;
    if (named.is_null() || !plain) {
      findings.leave_out(one.pointer, "not built: " + one.body->at("name").get<std::string>());
      continue;
    }
    const auto extension = make_extension(*from_json<ModelConfig>({{"position", "rope"}, {"extension", named}}).extension);
    const auto train = p.value("original_max_position_embeddings", p.value("max_position_embeddings", std::int64_t{1}));
    const double base = p.at("base").get<double>();
    const Tensor before = torch::tensor(rope_inv_freq(p.at("dim").get<std::int64_t>(), base), torch::kFloat64);
    const Frequencies got = extension->frequencies({before, base}, {train, p.value("seq_len", std::int64_t{1})});
    findings.near(one.place("inv_freq"), got.inv_freq, numbers(one.expected().at("inv_freq")), tolerance);
    findings.near(one.place("mscale"), got.magnitude, one.expected().at("mscale").get<double>(), tolerance);
  }
  return findings;
}

}  // namespace posenc::golden
