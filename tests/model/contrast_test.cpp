// Models that need no positions: LSTM, GRU and dilated convolutions.
#include <gmock/gmock.h>

#include "conformance/conformance.h"
#include "eval/evaluate.h"

namespace posenc {
namespace {

using ::testing::HasSubstr;

Json kind(const std::string& name, Json more = Json::object()) {
  Json model = {{"kind", name}, {"position", "none"}, {"layers", 3}, {"d_model", 12}};
  model.update(more);
  return model;
}

std::shared_ptr<LanguageModel> initialised(const Json& model, torch::ScalarType dtype = torch::kFloat32,
                                           std::int64_t vocab = kVocab) {
  auto built = make_model(tiny_config(model), vocab, kTrainLength, dtype);
  built->initialise(5);
  return built;
}

double largest(const Tensor& x) { return x.abs().max().item<double>(); }

class Contrast : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(EveryKind, Contrast, testing::Values("lstm", "gru", "conv"),
                         [](const auto& each) { return each.param; });

TEST_P(Contrast, ATokenChangesNothingBeforeIt) {
  at::set_num_threads(1);
  const auto model = initialised(kind(GetParam()));
  const Tensor tokens = random_tokens(1, 12), before = logits_of(*model, tokens);
  for (std::int64_t j = 0; j < 12; ++j) {
    Tensor changed = tokens.clone();
    changed.select(1, j).add_(1).remainder_(kVocab);
    const Tensor after = logits_of(*model, changed);
    EXPECT_TRUE(torch::equal(before.slice(1, 0, j), after.slice(1, 0, j))) << j;
    EXPECT_FALSE(torch::equal(before.select(1, j), after.select(1, j))) << j;
  }
}

TEST_P(Contrast, GradientsAreTheDifferencesOfTheLoss) {
  const double h = 1e-6;
  const auto model = initialised(kind(GetParam()), torch::kFloat64);
  const Tensor tokens = random_tokens(2, 9);
  const auto loss = [&] {
    return target_nll(*model, model->hidden(tokens.slice(1, 0, 8), {}).flatten(0, 1), tokens.slice(1, 1).flatten()).sum();
  };
  const auto parameters = model->parameters();
  const auto names = model->named_parameters().keys();
  const auto grads = torch::autograd::grad({loss()}, parameters);
  const torch::NoGradGuard no_grad;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const Tensor grad = grads[i].contiguous();
    double* value = parameters[i].data_ptr<double>();
    for (const std::int64_t at : {std::int64_t{0}, grad.abs().argmax().item<std::int64_t>(), grad.numel() - 1}) {
      const double kept = value[at];
      value[at] = kept + h;
      const double above = loss().item<double>();
      value[at] = kept - h;
      const double below = loss().item<double>();
      value[at] = kept;
      EXPECT_NEAR(grad.data_ptr<double>()[at], (above - below) / (2 * h), 1e-6 * (1 + largest(grad)))
          << names[i] << "[" << at << "]";
    }
  }
}

TEST_P(Contrast, DecodingFromAStateGivesTheFullForward) {
  const auto model = initialised(kind(GetParam()));
  const torch::NoGradGuard no_grad;
  const Tensor tokens = random_tokens(2, 50), whole = model->hidden(tokens, {});
  KvCache cache;
  Pass pass;
  pass.cache = &cache;
  std::vector<Tensor> parts;
  for (const auto& [begin, end] : {std::pair(0, 20), std::pair(20, 27), std::pair(27, 28), std::pair(28, 50)})
    parts.push_back(model->hidden(tokens.slice(1, begin, end), pass));
  EXPECT_LE(largest(torch::cat(parts, 1) - whole), 1e-5 * (1 + largest(whole)));
  EXPECT_EQ(cache.length(), 50);
}

TEST_P(Contrast, EveryLengthIsTakenAndTheSeedDecidesTheWeights) {
  const auto model = initialised(kind(GetParam())), again = initialised(kind(GetParam()));
  EXPECT_EQ(model->refusal(1 << 20, nullptr), "");
  const Tensor tokens = random_tokens(1, 16 * kTrainLength);
  EXPECT_TRUE(logits_of(*model, tokens).isfinite().all().item<bool>());
  EXPECT_TRUE(torch::equal(logits_of(*model, tokens), logits_of(*again, tokens)));
  again->initialise(6);
  EXPECT_FALSE(torch::equal(logits_of(*model, tokens), logits_of(*again, tokens)));
}

Evaluation evaluated(const LanguageModel& model, const Json& config) {
  EvalSettings settings;
  settings.config = from_json<EvalConfig>(config);
  settings.config.resolve(kTrainLength);
  std::string text;
  for (int i = 0; i < 500; ++i) text += static_cast<char>('a' + (i * i + i / 7) % 26);
  return evaluate(model, text_dataset(text), settings);
}

// The windows of a carried state are one long window; those of a reset one are not.
TEST_P(Contrast, ACarriedStateMakesTheWindowsOne) {
  const auto model = initialised(kind(GetParam()), torch::kFloat32, 256);
  const auto nll = [&](std::int64_t length, const char* state) {
    return *evaluated(
                *model,
                {{"lengths", {length}}, {"protocols", {"nonoverlapping"}}, {"tokens", 400}, {"by_position", 0}, {"state", state}})
                .cells[0]
                .nll;
  };
  EXPECT_NEAR(nll(16, "carry"), nll(399, "reset"), 1e-6);
  EXPECT_NEAR(nll(50, "carry"), nll(399, "reset"), 1e-6);
  EXPECT_GT(std::abs(nll(16, "reset") - nll(399, "reset")), 1e-5);
}

// 1 + 2·(1 + 2 + 4) = 15 tokens with three taps in three layers.
TEST(Convolutional, SeesItsReceptiveFieldAndNothingBeyond) {
  const ModelConfig config = tiny_config(kind("conv"));
  EXPECT_EQ(config.receptive_field(), 15);
  EXPECT_EQ(tiny_config(kind("conv", {{"kernel", 2}, {"dilations", {1, 5, 3}}})).receptive_field(), 10);
  const auto model = initialised(kind("conv"));
  const Tensor tokens = random_tokens(1, 60), before = logits_of(*model, tokens);
  for (const std::int64_t j : {0, 20, 33}) {
    Tensor changed = tokens.clone();
    changed.select(1, j).add_(1).remainder_(kVocab);
    const Tensor same = (logits_of(*model, changed) == before).all(2)[0];  // [T]
    EXPECT_FALSE(same[j + 14].item<bool>()) << j;
    EXPECT_TRUE(same.slice(0, 0, j).all().item<bool>()) << j;
    EXPECT_TRUE(same.slice(0, j + 15).all().item<bool>()) << j;
  }
}

// From 15 tokens of context on, more change nothing: the same loss at every length, to the last bit.
TEST(Convolutional, ItsLossIsFlatBeyondTheReceptiveField) {
  const auto model = initialised(kind("conv"), torch::kFloat32, 256);
  const Evaluation found =
      evaluated(*model, {{"lengths", {8, 32, 64, 200}}, {"targets", 4}, {"protocols", {"fixed_target"}}, {"by_position", 0}});
  EXPECT_EQ(*found.cells[1].nll, *found.cells[2].nll);
  EXPECT_EQ(*found.cells[1].nll, *found.cells[3].nll);
  EXPECT_NE(*found.cells[0].nll, *found.cells[1].nll);
}

TEST(Contrast, ParametersAreCounted) {
  const auto count = [](const Json& model) { return initialised(model, torch::kFloat32, 256)->parameter_count(); };
  EXPECT_EQ(count(kind("lstm", {{"layers", 2}, {"d_model", 10}})), 256 * 10 + 2 * (2 * 40 * 10 + 2 * 40));
  EXPECT_EQ(count(kind("gru", {{"layers", 2}, {"d_model", 10}})), 256 * 10 + 2 * (2 * 30 * 10 + 2 * 30));
  EXPECT_EQ(count(kind("conv", {{"layers", 2}, {"d_model", 10}})), 256 * 10 + 2 * (20 * 30 + 20 + 10) + 10);
  EXPECT_EQ(count(kind("lstm", {{"layers", 1}, {"d_model", 10}, {"tie_embeddings", false}})),
            2 * 256 * 10 + 2 * 40 * 10 + 2 * 40);
}

// The gates of a fresh LSTM let the state through: their bias is 1.
TEST(Recurrent, ForgetGatesStartOpen) {
  const auto parameters = initialised(kind("lstm"))->named_parameters();
  const Tensor bias = parameters["layers_0_input_bias"] + parameters["layers_0_state_bias"];  // input, forget, cell, output
  EXPECT_TRUE(torch::equal(bias.slice(0, 12, 24), torch::ones(12)));
  EXPECT_EQ(largest(bias.slice(0, 0, 12)), 0);
  EXPECT_EQ(largest(bias.slice(0, 24)), 0);
}

TEST(Contrast, APositionIsRefused) {
  const auto refusal = [](const Json& model) -> std::string {
    try {
      from_json<ModelConfig>(model);
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(refusal({{"kind", "lstm"}, {"position", "rope"}}), HasSubstr("lstm has no positions"));
  EXPECT_THAT(refusal({{"kind", "conv"}, {"position", "none"}, {"layers", 3}, {"dilations", {1, 2}}}),
              HasSubstr("2 numbers for 3 layers"));
  EXPECT_THAT(refusal({{"kind", "gru"}, {"position", "none"}, {"extension", "pi"}}), HasSubstr("no positions to extend"));
  EXPECT_EQ(refusal({{"kind", "gru"}, {"position", "none"}}), "");
}

}  // namespace
}  // namespace posenc
