// The axes beside a scheme: windows, sinks, samplers, layer plans, temperature, fusion. Cases where an axis must change nothing,
// and by how much it changes what it must.
#include <gmock/gmock.h>

#include "conformance/conformance.h"

namespace posenc {
namespace {

double difference(const Tensor& a, const Tensor& b) { return (a - b).abs().max().item<double>(); }

Tensor logits(const Json& position, std::int64_t length = 12, const Pass& pass = {}) {
  return logits_of(*tiny_model({{"position", position}}, torch::kFloat64), random_tokens(2, length), pass);
}

/// Copies of the parameters that both models have.
void copy_parameters(const LanguageModel& from, LanguageModel& to) {
  const torch::NoGradGuard no_grad;
  auto target = to.named_parameters();
  for (const auto& item : from.named_parameters()) {
    if (Tensor* p = target.find(item.key())) p->copy_(item.value());
  }
}

void set(LanguageModel& model, const std::string& ending, double value) {
  const torch::NoGradGuard no_grad;
  for (auto& item : model.named_parameters()) {
    if (item.key().ends_with(ending)) item.value().fill_(value);
  }
}

TEST(Axes, AWindowAsLongAsTheTextIsNone) {
  for (const char* scheme : {"rope", "alibi", "cope", "none"}) {
    const Tensor full = logits(scheme);
    EXPECT_TRUE(torch::equal(logits({{"scheme", scheme}, {"window", 12}}), full)) << scheme;
    EXPECT_TRUE(torch::equal(logits({{"scheme", scheme}, {"chunk", 12}}), full)) << scheme;
    EXPECT_GT(difference(logits({{"scheme", scheme}, {"window", 11}}), full), 1e-6) << scheme;
    EXPECT_GT(difference(logits({{"scheme", scheme}, {"chunk", 6}}), full), 1e-3) << scheme;
  }
}

// Two layers with a window of W see 2·(W − 1) tokens back, and nothing beyond.
TEST(Axes, AWindowBoundsWhatIsSeen) {
  const auto tested = tiny_model({{"position", {{"scheme", "rope"}, {"window", 3}}}}, torch::kFloat64);
  const Tensor tokens = random_tokens(1, 12);
  Tensor changed = tokens.clone();
  changed.select(1, 4).add_(1).remainder_(kVocab);
  const Tensor before = logits_of(*tested, tokens), after = logits_of(*tested, changed);
  EXPECT_FALSE(torch::equal(before.select(1, 8), after.select(1, 8)));
  EXPECT_TRUE(torch::equal(before.slice(1, 9), after.slice(1, 9)));
}

TEST(Axes, AChunkSeesNothingOfTheOneBefore) {
  const auto tested = tiny_model({{"position", {{"scheme", "rope"}, {"chunk", 4}}}}, torch::kFloat64);
  const Tensor tokens = random_tokens(1, 12);
  Tensor changed = tokens.clone();
  changed.select(1, 3).add_(1).remainder_(kVocab);
  EXPECT_TRUE(torch::equal(logits_of(*tested, tokens).slice(1, 4), logits_of(*tested, changed).slice(1, 4)));
}

TEST(Axes, KeptKeysAreSeenFromBeyondTheWindow) {
  const auto tested =
      tiny_model({{"position", {{"scheme", "rope"}, {"window", 2}, {"sinks", {{"keep_first", 1}}}}}}, torch::kFloat64);
  const Tensor tokens = random_tokens(1, 12);
  for (const auto& [j, seen] : {std::pair(0, true), std::pair(1, false)}) {
    Tensor changed = tokens.clone();
    changed.select(1, j).add_(1).remainder_(kVocab);
    EXPECT_EQ(difference(logits_of(*tested, tokens).select(1, 11), logits_of(*tested, changed).select(1, 11)) > 1e-6, seen) << j;
  }
}

TEST(Axes, ASinkOfMinusInfinityIsNone) {
  const auto plain = tiny_model({{"position", "rope"}}, torch::kFloat64);
  const auto with_sink = tiny_model({{"position", {{"scheme", "rope"}, {"sinks", "learned"}}}}, torch::kFloat64);
  copy_parameters(*plain, *with_sink);
  const Tensor tokens = random_tokens(2, 12);
  set(*with_sink, ".sink", -std::numeric_limits<double>::infinity());
  EXPECT_LE(difference(logits_of(*with_sink, tokens), logits_of(*plain, tokens)), 1e-12);
  set(*with_sink, ".sink", 0);
  const auto zero = tiny_model({{"position", {{"scheme", "rope"}, {"sinks", "zero"}}}}, torch::kFloat64);
  copy_parameters(*plain, *zero);
  EXPECT_TRUE(torch::equal(logits_of(*with_sink, tokens), logits_of(*zero, tokens)));
  EXPECT_GT(difference(logits_of(*zero, tokens), logits_of(*plain, tokens)), 1e-3);
}

// Softmax off by one over one key with a logit of 0: e^0/(1 + e^0).
TEST(Axes, AZeroSinkTakesHalfOfAnIndifferentRow) {
  const Scheme none;
  const Tensor zero = torch::zeros({1, 1, 2, 2}, torch::kFloat64), one = torch::ones({1, 1, 2, 2}, torch::kFloat64);
  const Positions at{torch::arange(2, torch::kFloat64)};
  for (const auto path : {AttentionPath::kReference, AttentionPath::kBlocked}) {
    const AttentionPlan plan(none, {}, {at, at}, {path, torch::kFloat64});
    const Tensor y = plan({zero, zero, one, zero[0], {}, torch::zeros({1}, torch::kFloat64)})[0][0];
    EXPECT_NEAR(y[0][0].item<double>(), 1.0 / 2, 1e-15);
    EXPECT_NEAR(y[1][0].item<double>(), 2.0 / 3, 1e-15);
  }
}

TEST(Axes, ASinkTokenStandsAtPositionZeroAndIsNotScored) {
  const Json position = {{"scheme", "learned"}, {"sinks", "token"}};
  const auto tested = tiny_model({{"position", position}}, torch::kFloat64);
  EXPECT_EQ(tested->named_parameters()["position.table"].size(0), kTrainLength + 1);
  EXPECT_EQ(logits_of(*tested, random_tokens(2, 12)).size(1), 12);
  EXPECT_EQ(tested->refusal(kTrainLength, nullptr), "");
  EXPECT_NE(tested->refusal(kTrainLength + 1, nullptr), "");
  const Tensor tokens = random_tokens(1, 5), before = logits_of(*tested, tokens);
  {
    const torch::NoGradGuard no_grad;
    tested->named_parameters()["sink_token"].add_(1);
  }
  EXPECT_GT(difference(logits_of(*tested, tokens), before), 1e-3);
}

TEST(Axes, RandomizedOverAsManyPositionsAsTokensIsArange) {
  for (const char* scheme : {"rope", "alibi", "learned", "t5", "fire"}) {
    const auto plain = tiny_model({{"position", scheme}}, torch::kFloat64);
    const auto randomized =
        tiny_model({{"position", {{"scheme", scheme}, {"sampler", {{"method", "randomized"}, {"max", 16}}}}}}, torch::kFloat64);
    copy_parameters(*plain, *randomized);
    Pass pass;
    pass.training = true;
    const Tensor tokens = random_tokens(2, 16);
    EXPECT_LE(difference(logits_of(*randomized, tokens, pass), logits_of(*plain, tokens)), 1e-12) << scheme;
  }
}

// SHAPE: a relative scheme does not notice, an absolute one does.
TEST(Axes, AnOffsetIsSeenByAbsoluteSchemesOnly) {
  const Json sampler = {{"method", "offset"}, {"max", 50}};
  Pass pass;
  pass.training = true;
  pass.position_seed = 3;
  EXPECT_LE(difference(logits({{"scheme", "rope"}, {"sampler", sampler}}, 12, pass), logits("rope")), 1e-12);
  EXPECT_GT(difference(logits({{"scheme", "sinusoidal"}, {"sampler", sampler}}, 12, pass), logits("sinusoidal")), 1e-2);
}

TEST(Axes, ALayerPlanOfOneKindIsThatKind) {
  EXPECT_TRUE(torch::equal(logits({{"scheme", "rope"}, {"layers", {{{"repeat", 2}}}}}), logits("rope")));
  EXPECT_TRUE(torch::equal(logits({{"scheme", "none"}, {"layers", {{{"scheme", "rope"}}}}}), logits("rope")));
}

// Two layers, of which one is without positions, lie between both.
TEST(Axes, ALayerPlanGivesEachLayerItsScheme) {
  const Tensor mixed = logits({{"scheme", "rope"}, {"layers", {"rope", "none"}}});
  EXPECT_GT(difference(mixed, logits("rope")), 1e-3);
  EXPECT_GT(difference(mixed, logits("none")), 1e-3);
  EXPECT_GT(difference(mixed, logits({{"scheme", "rope"}, {"layers", {"none", "rope"}}})), 1e-3);
}

TEST(Axes, LayersOfDifferentParametersHaveTheirOwn) {
  const auto tested =
      tiny_model({{"layers", 4}, {"position", {{"scheme", "t5"}, {"layers", {{{"buckets", 8}}, {{"buckets", 4}}}}}}});
  const auto names = tested->named_parameters().keys();
  EXPECT_EQ(std::count_if(names.begin(), names.end(), [](const std::string& n) { return n.starts_with("position"); }), 2);
}

TEST(Axes, LogNChangesNothingUpToTheTrainingLength) {
  EXPECT_TRUE(torch::equal(logits({{"scheme", "rope"}, {"temperature", "log_n"}}, kTrainLength), logits("rope", kTrainLength)));
  EXPECT_GT(difference(logits({{"scheme", "rope"}, {"temperature", "log_n"}}, 40), logits("rope", 40)), 1e-3);
}

TEST(Axes, QkNormMakesLogitsIndifferentToTheScaleOfQueriesAndKeys) {
  const auto tested = tiny_model({{"position", "rope"}, {"qk_norm", true}}, torch::kFloat64);
  const Tensor tokens = random_tokens(2, 12), before = logits_of(*tested, tokens);
  {
    const torch::NoGradGuard no_grad;
    for (auto& item : tested->named_parameters()) {
      if (item.key().ends_with("qkv.weight")) item.value().slice(0, 0, 64).mul_(100);  // 4 q heads and 4 k heads of width 8
    }
  }
  EXPECT_LE(difference(logits_of(*tested, tokens), before), 2e-4);  // what norm_eps, 1e-5, weighs against squares of about 0.1
}

Json fused(const char* scheme, const char* fusion) { return {{"scheme", scheme}, {"fusion", fusion}}; }

std::int64_t parameters_of(const Json& position, bool tied = true) {
  ModelConfig config = from_json<ModelConfig>({{"position", position}, {"tie_embeddings", tied}});
  config.resolve();
  return make_model(config, 256, 128)->parameter_count();
}

// Width 128, 256 bytes: 820352 without positions.
TEST(Fusion, ParametersAreThoseOfItsFormula) {
  EXPECT_EQ(parameters_of(fused("sinusoidal", "add")), 820352);
  EXPECT_EQ(parameters_of(fused("sinusoidal", "add_scaled")), 820353);
  EXPECT_EQ(parameters_of(fused("sinusoidal", "concat")), 803968);          // − 256·64: narrower embeddings, tied
  EXPECT_EQ(parameters_of(fused("sinusoidal", "concat_project")), 853120);  // + 128·256
  EXPECT_EQ(parameters_of(fused("sinusoidal", "gated")), 853248);           // + 128·256 + 128
  EXPECT_EQ(parameters_of(fused("sinusoidal", "film")), 853120);            // + 2·128·128
  EXPECT_EQ(parameters_of(fused("sinusoidal", "per_layer")), 820352);
  EXPECT_EQ(parameters_of(fused("sinusoidal", "qk_only")), 820352);
  EXPECT_EQ(parameters_of(fused("learned", "concat")), 812160);  // + 128·64
}

// Press et al. 2021: position-infused attention keeps positions out of the values. With queries of zero every weight is the
// same, and a model of one layer sees no position at all; added before the layer it does.
TEST(Fusion, QkOnlyKeepsPositionsOutOfTheValues) {
  for (const auto& [fusion, seen] : {std::pair("qk_only", false), std::pair("per_layer", true), std::pair("add", true)}) {
    const auto tested = tiny_model({{"layers", 1}, {"position", fused("sinusoidal", fusion)}}, torch::kFloat64);
    {
      const torch::NoGradGuard no_grad;
      tested->named_parameters()["layers_0.qkv.weight"].slice(0, 0, 32).zero_();
    }
    Pass shifted;
    shifted.first_position = 5;
    const Tensor tokens = random_tokens(1, 9);
    EXPECT_EQ(difference(logits_of(*tested, tokens, shifted), logits_of(*tested, tokens)) > 1e-9, seen) << fusion;
  }
}

// By hand, width 2: e = (1, 2), p = (sin 1, cos 1).
TEST(Fusion, EachIsItsFormula) {
  const auto embedded = [](const char* fusion, std::map<std::string, Tensor> parameters) {
    const SchemeInfo* info = find_registered(schemes(), "sinusoidal");
    std::vector<Problem> problems;
    const Document given{{{"fusion", fusion}, {"token_scale", false}}, "", {}};
    const auto scheme = make_scheme("sinusoidal", info->resolve(given.root, Reader(given, problems)), {.d_model = 2});
    const torch::NoGradGuard no_grad;
    scheme->to(torch::kFloat64);
    for (auto& [name, value] : parameters) scheme->named_parameters()[name].copy_(value);
    const Positions one{torch::ones({1}, torch::kFloat64)};
    const Tensor x = scheme->embed(torch::tensor({1.0, 2.0}, torch::kFloat64).view({1, 1, 2}), {one, one}).flatten();
    return std::vector<double>(x.data_ptr<double>(), x.data_ptr<double>() + x.numel());
  };
  using testing::DoubleNear;
  using testing::ElementsAre;
  const double s = 0.8414709848, c = 0.5403023059;
  const auto near = [](double x) { return DoubleNear(x, 1e-9); };
  EXPECT_THAT(embedded("add", {}), ElementsAre(near(1 + s), near(2 + c)));
  EXPECT_THAT(embedded("add_scaled", {{"fusion_scale", torch::tensor({3.0})}}), ElementsAre(near(1 + 3 * s), near(2 + 3 * c)));
  EXPECT_THAT(embedded("concat_project", {{"fusion_weight", torch::tensor({{1.0, 0.0, 0.0, 2.0}, {0.0, 0.0, 5.0, 0.0}})}}),
              ElementsAre(near(1 + 2 * c), near(5 * s)));
  EXPECT_THAT(embedded("film", {{"fusion_weight", torch::tensor({{1.0, 0.0}, {0.0, 0.0}})},
                                {"fusion_shift", torch::tensor({{0.0, 0.0}, {1.0, 0.0}})}}),
              ElementsAre(near(1 + s), near(2 + s)));
  EXPECT_THAT(embedded("gated", {{"fusion_bias", torch::tensor({0.0, 100.0})}}), ElementsAre(near((1 + s) / 2), near(2)));
}

}  // namespace
}  // namespace posenc
