// The "position" member of a config: the scheme and the axes beside it.
#include "model/position.h"

#include <gmock/gmock.h>

#include "model/config.h"

namespace posenc {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

ModelConfig model(const Json& position, std::int64_t layers = 4) {
  return from_json<ModelConfig>({{"layers", layers}, {"position", position}});
}

/// The problems of a position as "pointer: rule", those that need the model's sizes included.
std::vector<std::string> problems_of(const Json& position, std::int64_t layers = 4) {
  std::vector<Problem> problems;
  const Document document{position, "test", {}};
  const Reader reader(document, problems);
  PositionConfig config;
  if (Codec<PositionConfig>::read(position, config, {}, reader)) {
    config.check({.layers = layers, .d_model = 32, .heads = 4, .kv_heads = 4, .head_dim = 8, .train_length = 16, .positions = 16},
                 reader);
  }
  std::vector<std::string> texts;
  for (const Problem& problem : problems) texts.push_back(problem.pointer + ": " + problem.rule);
  return texts;
}

TEST(Position, ANameIsShortForAnObject) {
  EXPECT_EQ(Codec<PositionConfig>::write(model("rotary").position),
            Codec<PositionConfig>::write(model({{"scheme", "rope"}}).position));
}

TEST(Position, EveryNameInUseResolves) {
  const std::vector<std::pair<const char*, std::vector<const char*>>> names = {
      {"none", {"nope", "nopos", "no_pe"}},
      {"sinusoidal", {"sin", "sincos", "sin_cos", "ape", "abs_sin", "fixed"}},
      {"learned", {"learned_absolute", "learnt", "wpe", "abs_learned"}},
      {"shaw", {"rpr", "relative_shaw"}},
      {"transformer_xl", {"txl", "rel_txl"}},
      {"rel_scalar", {"clipped_bias", "learned_bias"}},
      {"t5", {"t5_bias", "rpe", "relative", "rel_pos_bias"}},
      {"alibi", {"linear_bias"}},
      {"rope", {"rotary", "roformer"}},
      {"xpos", {"lex", "rotary_xpos"}},
      {"kerple_log", {"kerple"}},
      {"dape", {"cape"}},
      {"fox", {"forgetting", "data_dependent_alibi"}},
      {"stick_breaking", {"stickbreaking"}},
  };
  for (const auto& [name, aliases] : names) {
    for (const char* alias : aliases) EXPECT_EQ(model(alias).position.name, name) << alias;
  }
  for (const char* alias : {"shape", "random_offset", "shifted_ape"})
    EXPECT_EQ(model({{"scheme", "rope"}, {"sampler", alias}}).position.sampler.method, "offset") << alias;
  for (const char* alias : {"randpe", "rand_pos", "noisy_rope"})
    EXPECT_EQ(model({{"scheme", "rope"}, {"sampler", {{"method", alias}}}}).position.sampler.method, "randomized") << alias;
}

TEST(Position, AxesStandBesideTheParametersOfTheScheme) {
  const PositionConfig p = model({{"scheme", "rope"},
                                  {"base", 500},
                                  {"window", 64},
                                  {"temperature", "log_n"},
                                  {"sinks", {{"type", "learned"}, {"keep_first", 4}}},
                                  {"sampler", "offset"}})
                               .position;
  EXPECT_EQ(p.parameters.at("base"), 500);
  EXPECT_EQ(p.axes.window, 64);
  EXPECT_EQ(p.axes.temperature.method, "log_n");
  EXPECT_EQ(p.axes.sinks.type, "learned");
  EXPECT_EQ(p.axes.sinks.keep_first, 4);
  EXPECT_EQ(p.sampler.method, "offset");
}

TEST(Position, WhatIsWrittenReadsBackAsTheSame) {
  const PositionConfig p =
      model({{"scheme", "rope"}, {"window", 8}, {"layers", {{{"repeat", 3}}, {{"scheme", "none"}, {"window", nullptr}}}}})
          .position;
  const Json written = Codec<PositionConfig>::write(p);
  EXPECT_EQ(Codec<PositionConfig>::write(model(written).position), written);
}

// RNoPE-SWA: three layers of RoPE in a window, then one without positions that sees everything.
TEST(Position, APatternIsRepeatedOverTheLayers) {
  const PositionConfig p = model({{"scheme", "rope"},
                                  {"base", 500},
                                  {"window", 8},
                                  {"layers", {{{"repeat", 3}}, {{"scheme", "none"}, {"window", nullptr}}}}},
                                 6)
                               .position;
  const auto plan = p.plan(6);
  std::vector<std::string> names;
  for (const LayerPosition& layer : plan) names.push_back(layer.name);
  EXPECT_THAT(names, ElementsAre("rope", "rope", "rope", "none", "rope", "rope"));
  EXPECT_EQ(plan[5].parameters.at("base"), 500);
  EXPECT_EQ(plan[5].axes.window, 8);
  EXPECT_EQ(plan[3].axes.window, std::nullopt);
}

TEST(Position, AnEntryOfAnotherSchemeLeavesTheParametersBehind) {
  const PositionConfig p =
      model({{"scheme", "rope"}, {"base", 500}, {"layers", {{{"scheme", "alibi"}}, {{"base", 7}}}}}).position;
  EXPECT_FALSE(p.plan(2)[0].parameters.contains("base"));
  EXPECT_EQ(p.plan(2)[1].parameters.at("base"), 7);
}

TEST(Position, ALabelNamesWhatIsNotTheDefault) {
  EXPECT_EQ(model("rope").position.label(), "rope");
  EXPECT_EQ(model({{"scheme", "rope"}, {"base", 500}, {"window", 64}, {"sampler", "randomized"}}).position.label(),
            "rope(base=500,window=64,sampler=randomized)");
  EXPECT_EQ(model({{"scheme", "learned"}, {"overflow", "clamp"}}).position.label(), "learned(overflow=clamp)");
  EXPECT_EQ(model({{"scheme", "rope"}, {"layers", {{{"repeat", 3}, {"window", 8}}, {{"scheme", "none"}}}}}).position.label(),
            "[3*rope(window=8), none]");
}

TEST(Position, AnUnknownKeyIsComparedWithParametersAndAxes) {
  EXPECT_THAT(problems_of({{"scheme", "rope"}, {"windw", 3}}), ElementsAre(HasSubstr("\"window\"")));
  EXPECT_THAT(problems_of({{"scheme", "rope"}, {"bse", 3}}), ElementsAre(HasSubstr("\"base\"")));
  EXPECT_THAT(problems_of({{"scheme", "rope"}, {"layers", {{{"repat", 3}}}}}),
              ElementsAre(AllOf(HasSubstr("/layers/0"), HasSubstr("\"repeat\""))));
}

TEST(Position, EveryProblemIsReportedAtItsPlace) {
  EXPECT_THAT(
      problems_of({{"scheme", "rope"}, {"window", 0}, {"chunk", -1}, {"sinks", "deep"}, {"temperature", {{"scale", -1}}}}),
      ElementsAre(HasSubstr("/window"), HasSubstr("/chunk"), HasSubstr("/sinks/type"), HasSubstr("/temperature/scale")));
}

TEST(Position, RulesOverSeveralKeysHold) {
  EXPECT_THAT(problems_of({{"scheme", "rope"}, {"sinks", {{"keep_first", 2}}}}), ElementsAre(HasSubstr("/sinks/keep_first")));
  EXPECT_THAT(problems_of({{"scheme", "rope"}, {"sampler", {{"method", "randomized"}, {"max", 15}}}}),
              ElementsAre(AllOf(HasSubstr("/sampler/max"), HasSubstr("16"))));
  EXPECT_THAT(problems_of({{"scheme", "rope"}, {"sampler", {{"max", 15}}}}), ElementsAre(HasSubstr("arange has no max")));
  EXPECT_THAT(problems_of({{"scheme", "rope"}, {"layers", {{{"repeat", 5}}}}}), ElementsAre(HasSubstr("5 layers")));
  EXPECT_THAT(problems_of({{"scheme", "none"}, {"layers", {{{"scheme", "none"}}, {{"scheme", "learned"}}}}}),
              ElementsAre(AllOf(HasSubstr("/layers/1"), HasSubstr("whole model"))));
  EXPECT_THAT(problems_of({{"scheme", "stick_breaking"}, {"sinks", "learned"}}), ElementsAre(HasSubstr("softmax")));
  EXPECT_THAT(problems_of({{"scheme", "rope"}, {"layers", {{{"sinks", "token"}}, {{"sinks", "none"}}}}}),
              ElementsAre(HasSubstr("sink token")));
  EXPECT_THAT(problems_of({{"scheme", "sinusoidal"}, {"layers", {{{"window", 4}}, {{"window", nullptr}}}}}), ElementsAre());
}

}  // namespace
}  // namespace posenc
