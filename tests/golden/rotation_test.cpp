// The checks of goldens about schemes that turn, scale or gate: xPos and the Forgetting Transformer.
#include <cmath>

#include "golden/golden.h"
#include "model/attention.h"
#include "schemes/scheme.h"

namespace posenc::golden {
namespace {

Positions counted(std::int64_t n) { return {torch::arange(n, torch::kFloat64), 1}; }

}  // namespace

Findings check_xpos(const Golden& golden) {
  Findings findings;
  const Json& t = golden.root.at("tolerance");
  const Tolerance float32{t.at("float32_abs").get<double>(), 0}, exact{t.at("qk_logits_float64_abs").get<double>(), 0};
  for (const Case& one : cases(golden)) {
    const Json& p = one.params();
    const auto length = p.at("T").get<std::int64_t>();
    ModelShape shape;
    shape.head_dim = p.at("head_dim").get<std::int64_t>();
    const auto scheme =
        make_scheme("xpos", {{"scale_base", p.at("scale_base").get<double>()}, {"layout", p.at("layout")}}, shape);
    for (const auto dtype : {torch::kFloat32, torch::kFloat64}) {
      const Tensor q = numbers(one.inputs().at("q")).to(dtype).unsqueeze(0),
                   k = numbers(one.inputs().at("k")).to(dtype).unsqueeze(0);
      // Key n/2 is the centre: ⌊T/2⌋ of T keys, ⌈T/2⌉ of one more when T is odd, which is torchscale's.
      const auto rotated = [&](const Tensor& x, Side side, std::int64_t keys) {
        const Tensor padded = side == Side::kKey ? torch::constant_pad_nd(x, {0, 0, 0, keys - length}) : x;
        return scheme->rotate(padded, side, {counted(length), counted(keys)}).slice(2, 0, length).squeeze(0);
      };
      for (const auto& [peer, want] : one.expected().items()) {
        if (!want.is_object()) continue;
        const std::int64_t keys = peer == "torchscale" ? (length + 1) / 2 * 2 : length;
        findings.near(one.place(peer) + "/q", rotated(q, Side::kQuery, keys), numbers(want.at("q")), float32);
        findings.near(one.place(peer) + "/k", rotated(k, Side::kKey, keys), numbers(want.at("k")), float32);
      }
      const Tensor logits = torch::matmul(rotated(q, Side::kQuery, length), rotated(k, Side::kKey, length).transpose(1, 2));
      findings.near(one.place("qk_logits_no_1_over_sqrt_d"), logits, numbers(one.expected().at("qk_logits_no_1_over_sqrt_d")),
                    float32);
      findings.near(one.place("qk_logits_float64"), logits, numbers(one.expected().at("qk_logits_float64")),
                    dtype == torch::kFloat64 ? exact : float32);
    }
  }
  return findings;
}

Findings check_attn_fox(const Golden& golden) {
  Findings findings;
  const Json& t = golden.root.at("tolerance");
  const Tolerance float32{t.at("out_fla_float32_abs").get<double>(), 0}, exact{t.at("float64_abs").get<double>(), 0};
  for (const Case& one : cases(golden)) {
    const Json &p = one.params(), &in = one.inputs(), &expected = one.expected();
    const auto length = p.at("T").get<std::int64_t>(), heads = p.at("n_heads").get<std::int64_t>(),
               kv_heads = p.at("n_kv_heads").get<std::int64_t>();
    ModelShape shape;
    shape.heads = heads, shape.kv_heads = kv_heads, shape.d_model = p.at("d_model").get<std::int64_t>();
    shape.head_dim = p.at("head_dim").get<std::int64_t>();
    const auto scheme = make_scheme("fox", Json::object(), shape);
    for (const auto dtype : {torch::kFloat32, torch::kFloat64}) {
      const torch::NoGradGuard no_grad;
      const Tolerance& tolerance = dtype == torch::kFloat64 ? exact : float32;
      scheme->to(dtype);
      scheme->named_parameters()["weight"].copy_(numbers(in.at("w_f")));
      scheme->named_parameters()["bias"].copy_(numbers(in.at("b_f")));
      const auto by_head = [&](const char* name) {
        const Tensor given = numbers(in.at(name)).to(dtype);  // [heads or kv_heads, T, D]
        return given.repeat_interleave(heads / given.size(0), 0).unsqueeze(0);
      };
      const Tensor x = numbers(in.at("x")).to(dtype).unsqueeze(0);  // [1, T, C]
      const AttentionInput content{by_head("q"), by_head("k"), by_head("v"), x};
      const Frame frame{counted(length), counted(length), 0, length};

      const Content seen{content.q, content.k, content.v, x};
      const Tensor bias = scheme->score(torch::zeros({1, heads, length, length}, dtype), seen, frame)[0];
      findings.near(one.place("bias_tril"), bias.tril(), numbers(expected.at("bias_tril")), tolerance);
      // Behind one token more in front, every gate is the bias of a token on the one before.
      Content longer = seen;
      longer.x = torch::cat({x.slice(1, 0, 1), x}, 1);
      const Frame longer_frame{counted(length + 1), counted(length + 1), 0, length};
      const Tensor gates = scheme->score(torch::zeros({1, heads, length + 1, length + 1}, dtype), longer, longer_frame)[0];
      findings.near(one.place("log_forget"), gates.diagonal(-1, 1, 2), numbers(expected.at("log_forget")), tolerance);

      AttentionInput identity = content;
      identity.v = torch::eye(length, dtype).expand({1, heads, length, length});
      for (const auto& [path, rows] : {std::pair(AttentionPath::kReference, 0), std::pair(AttentionPath::kBlocked, 2),
                                       std::pair(AttentionPath::kFused, 0)}) {
        const AttentionPlan plan(*scheme, {.content_dependent = true}, frame,
                                 {.path = path, .dtype = dtype, .batch = 1, .heads = heads, .block_rows = rows});
        const Tensor out = plan(content)[0];
        findings.near(one.place("attn_probs"), plan(identity)[0], numbers(expected.at("attn_probs")), tolerance);
        findings.near(one.place("out"), out, numbers(expected.at("out")), tolerance);
        findings.near(one.place("out_fla_float32"), out, numbers(expected.at("out_fla_float32")), float32);
      }
    }
  }
  return findings;
}

}  // namespace posenc::golden
