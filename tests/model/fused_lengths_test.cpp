// The three paths of attention on every scheme that has a fused form, at lengths around the sizes of tiles, with what may stand
// beside a scheme. Whole models on shorter sequences are for the conformance suite.
#include <gtest/gtest.h>

#include "conformance/conformance.h"

namespace posenc {
namespace {

struct Setting {
  std::string label;
  Json axes;  ///< beside the scheme
  std::int64_t kv_heads = 4;
};

const std::vector<Setting>& settings() {
  static const std::vector<Setting> all = {
      {"plain", Json::object()},
      {"grouped", Json::object(), 2},
      {"window_sink", {{"window", 48}, {"sinks", {{"type", "learned"}, {"keep_first", 3}}}}},
  };
  return all;
}

Json position_of(const SchemeInfo& info, const Setting& setting) {
  Json position = {{"scheme", info.name}};
  position.update(setting.axes);
  return position;
}

/// Whether the scheme has a fused form at evenly spaced positions.
bool has_fused_form(const SchemeInfo& info) {
  const ModelConfig config = tiny_config({{"position", info.name}});
  const auto scheme = make_scheme(config.position.name, config.position.parameters, config.shape(kTrainLength));
  const Positions at{torch::arange(4, torch::kFloat64), 1};
  return fuses(*scheme, info.traits, {at, at, 0, kTrainLength}, torch::kFloat32);
}

class FusedLengths : public testing::TestWithParam<std::tuple<std::string, std::size_t>> {
 protected:
  std::shared_ptr<LanguageModel> model(torch::ScalarType dtype) const {
    const auto& [name, at] = GetParam();
    const Setting& setting = settings()[at];
    Json position = position_of(*find_registered(schemes(), name), setting);
    if (name == "learned") position["max_positions"] = 1000;
    return tiny_model({{"layers", 1}, {"kv_heads", setting.kv_heads}, {"position", position}}, dtype);
  }
};

std::vector<std::string> fused_schemes() {
  std::vector<std::string> names;
  for (const SchemeInfo& info : schemes()) {
    if (has_fused_form(info)) names.push_back(info.name);
  }
  return names;
}

INSTANTIATE_TEST_SUITE_P(EveryFusedScheme, FusedLengths,
                         testing::Combine(testing::ValuesIn(fused_schemes()), testing::Range<std::size_t>(0, 3)),
                         [](const auto& each) {
                           return std::get<0>(each.param) + "_" + settings()[std::get<1>(each.param)].label;
                         });

struct Outcome {
  Tensor hidden;
  std::vector<Tensor> gradients;
};

Outcome run(const LanguageModel& model, const Tensor& tokens, AttentionPath path) {
  Pass pass;
  pass.attention = path;
  pass.block_rows = 37;
  const Tensor hidden = model.hidden(tokens, pass);
  const Tensor weights = torch::linspace(-1, 1, hidden.numel(), torch::kFloat64).to(hidden.scalar_type()).view(hidden.sizes());
  const std::vector<Tensor> parameters = model.parameters();
  auto gradients = torch::autograd::grad({(hidden * weights).sum()}, parameters, {}, false, false, /*allow_unused=*/true);
  return {hidden.detach(), gradients};
}

double largest(const Tensor& x) { return x.abs().max().item<double>(); }

/// The largest gradient among the parameters of the same module: those of a bias are sums in which the weights' cancel.
double scale_of(std::size_t parameter, const std::vector<std::string>& names, const std::vector<Tensor>& gradients) {
  const auto module = [&](std::size_t i) { return names[i].substr(0, names[i].rfind('.')); };
  double scale = 0;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (gradients[i].defined() && module(i) == module(parameter)) scale = std::max(scale, largest(gradients[i]));
  }
  return scale;
}

TEST_P(FusedLengths, FusedIsBlockedIsReferenceWithItsGradients) {
  at::set_num_threads(1);
  const auto tested = model(torch::kFloat32), exact = model(torch::kFloat64);
  const auto names = tested->named_parameters().keys();
  for (const std::int64_t length : {1, 7, 64, 65, 1000}) {
    const Tensor tokens = random_tokens(1, length);
    Pass pass;
    ASSERT_EQ(tested->attention_paths(1, length, pass), "fused");
    const Outcome want = run(*exact, tokens, AttentionPath::kReference), single = run(*tested, tokens, AttentionPath::kReference);
    for (const auto path : {AttentionPath::kFused, AttentionPath::kBlocked}) {
      const Outcome got = run(*tested, tokens, path);
      EXPECT_LE(largest(got.hidden - single.hidden), 1e-5 * (1 + largest(want.hidden)))
          << length << " " << attention_path_name(path);
      for (std::size_t i = 0; i < names.size(); ++i) {
        if (!want.gradients[i].defined()) continue;
        EXPECT_LE(largest(got.gradients[i] - want.gradients[i]), 1e-4 * (scale_of(i, names, want.gradients) + 1e-2))
            << length << " " << attention_path_name(path) << " " << names[i];
      }
    }
  }
}

// A few last queries of many keys, as in decoding.
TEST_P(FusedLengths, QueriesFromAnOffsetOnAreThoseOfTheWhole) {
  at::set_num_threads(1);
  const torch::NoGradGuard no_grad;
  const auto tested = model(torch::kFloat32);
  const Tensor tokens = random_tokens(2, 200);
  const Tensor whole = tested->hidden(tokens, {});
  KvCache cache;
  Pass pass;
  pass.cache = &cache;
  pass.window = 200;
  tested->hidden(tokens.slice(1, 0, 131), pass);
  const Tensor rest = tested->hidden(tokens.slice(1, 131), pass);
  EXPECT_LE(largest(rest - whole.slice(1, 131)), 1e-5 * (1 + largest(whole)));
}

}  // namespace
}  // namespace posenc
