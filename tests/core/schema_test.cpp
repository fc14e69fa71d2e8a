#include "core/schema.h"

#include <gmock/gmock.h>

#include <limits>

namespace posenc {
namespace {

struct Plan {
  std::int64_t first = 0;
};

struct Sample {
  std::int64_t steps = 1000;
  std::int64_t seed = 1;
  double lr = 1e-3;
  double factor = 1;
  bool tie = true;
  std::string activation = "gelu";
  std::vector<std::int64_t> lengths = {128, 256};
  std::vector<std::string> protocols = {"fixed"};
  std::vector<Plan> plans;
  std::optional<std::int64_t> window;
  Plan plan;
};

struct Nothing {};

}  // namespace

template <>
const Schema<Plan>& schema<Plan>() {
  static const Schema<Plan> table = Schema<Plan>("plan").field("first", &Plan::first, "first layer").at_least(0);
  return table;
}

template <>
const Schema<Nothing>& schema<Nothing>() {
  static const Schema<Nothing> table("nothing");
  return table;
}

template <>
const Schema<Sample>& schema<Sample>() {
  static const Schema<Sample> table = Schema<Sample>("sample")
                                          .field("steps", &Sample::steps, "optimizer steps")
                                          .range(1, 1e9)
                                          .field("seed", &Sample::seed, "seed")
                                          .at_least(0)
                                          .field("lr", &Sample::lr, "peak learning rate")
                                          .above(0)
                                          .at_most(10)
                                          .field("factor", &Sample::factor, "scale")
                                          .at_least(1)
                                          .field("tie", &Sample::tie, "tie embeddings")
                                          .field("activation", &Sample::activation, "nonlinearity")
                                          .choices({"gelu", "gelu_tanh", "swiglu", "relu"})
                                          .field("lengths", &Sample::lengths, "lengths")
                                          .at_least(1)
                                          .field("protocols", &Sample::protocols, "protocols")
                                          .choices({"fixed", "sliding"})
                                          .field("plans", &Sample::plans, "plans")
                                          .field("window", &Sample::window, "window")
                                          .at_least(1)
                                          .field("plan", &Sample::plan, "plan")
                                          .ignore("$schema")
                                          .check([](const Sample& s, const Reader& r) {
                                            if (s.steps == 13) r.problem("steps", "13 is unlucky (try 12)");
                                          });
  return table;
}

namespace {

Sample read(const std::string& text) { return read_document<Sample>(parse_json(text, "c.json")); }

/// The message with which the document is refused, or "" when it is accepted.
std::string refusal(const std::string& text) {
  try {
    read(text);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST(Schema, ReadsOverTheDefaults) {
  const Sample s = read(
      "{\"$schema\": \"x\", \"seed\": 5, \"lr\": 2, \"tie\": false, \"activation\": \"relu\", \"lengths\": [7], "
      "\"plans\": [{\"first\": 1}, {}], \"window\": 3, \"plan\": {\"first\": 4}}");
  EXPECT_EQ(s.steps, 1000);
  EXPECT_EQ(s.seed, 5);
  EXPECT_EQ(s.lr, 2.0);
  EXPECT_FALSE(s.tie);
  EXPECT_EQ(s.activation, "relu");
  EXPECT_THAT(s.lengths, testing::ElementsAre(7));
  EXPECT_EQ(s.plans.size(), 2u);
  EXPECT_EQ(s.plans.at(0).first, 1);
  EXPECT_EQ(s.window, 3);
  EXPECT_EQ(s.plan.first, 4);
  EXPECT_EQ(read("{\"window\": null}").window, std::nullopt);
}

TEST(Schema, ReportsEveryProblemAtOnceWithItsPlace) {
  EXPECT_EQ(refusal("{\"steps\": 0,\n \"tie\": 1,\n \"plan\": {\"first\": -1},\n \"lengths\": [1, 0, \"x\"]}"),
            "c.json:1:11: /steps: 0 is below 1\n"
            "c.json:2:9: /tie: 1 is not true or false\n"
            "c.json:3:20: /plan/first: -1 is below 0\n"
            "c.json:4:17: /lengths/1: 0 is below 1\n"
            "c.json:4:20: /lengths/2: \"x\" is not an integer");
}

// Fault 59.
TEST(Schema, AnUnknownKeyNamesTheNearestOrAllValidOnes) {
  EXPECT_EQ(refusal("{\"learning_rat\": 1}"), "c.json:1:18: /learning_rat: unknown key \"learning_rat\" (did you mean \"lr\"?)");
  EXPECT_EQ(refusal("{\"num-steps\": 1}"), "c.json:1:15: /num-steps: unknown key \"num-steps\" (did you mean \"steps\"?)");
  EXPECT_EQ(refusal("{\"plan\": {\"lr\": 1}}"), "c.json:1:17: /plan/lr: unknown key \"lr\" (valid keys: first)");
  EXPECT_THROW(from_json<Nothing>({{"a", 1}}), ConfigError);
}

// Fault 64: exact or refused, never cut.
TEST(Schema, AnIntegerIsExactOrRefused) {
  EXPECT_EQ(read("{\"steps\": 64.0}").steps, 64);
  EXPECT_EQ(read("{\"steps\": 1e3}").steps, 1000);
  EXPECT_EQ(read("{\"seed\": 4294967300}").seed, 4294967300);
  EXPECT_EQ(read("{\"seed\": 9223372036854775807}").seed, 9223372036854775807);
  EXPECT_EQ(refusal("{\"steps\": 4294967300}"), "c.json:1:11: /steps: 4294967300 is above 1000000000");
  EXPECT_EQ(refusal("{\"steps\": 16.5}"), "c.json:1:11: /steps: 16.5 is not an integer");
  EXPECT_THAT(refusal("{\"seed\": 1e20}"), testing::HasSubstr("too large for an integer in this notation"));
  EXPECT_THAT(refusal("{\"seed\": 9007199254740993.0}"), testing::HasSubstr("too large for an integer in this notation"));
  EXPECT_THAT(refusal("{\"seed\": 9223372036854775808}"), testing::HasSubstr("above 9223372036854775807"));
  EXPECT_THAT(refusal("{\"steps\": true}"), testing::HasSubstr("true is not an integer"));
  EXPECT_THAT(refusal("{\"steps\": \"64\"}"), testing::HasSubstr("\"64\" is not an integer (write 64 without quotes)"));
  EXPECT_THAT(refusal("{\"steps\": null}"), testing::HasSubstr("null is not an integer"));
}

// Fault 73: seeds beyond 32 bits are kept whole; negative and fractional ones are refused.
TEST(Schema, ASeedKeepsAllItsBits) {
  EXPECT_EQ(read("{\"seed\": 4294967297}").seed, 4294967297);
  EXPECT_EQ(read("{\"seed\": 0}").seed, 0);
  EXPECT_EQ(refusal("{\"seed\": -1}"), "c.json:1:10: /seed: -1 is below 0");
  EXPECT_EQ(refusal("{\"seed\": 1.5}"), "c.json:1:10: /seed: 1.5 is not an integer");
}

// Faults 67 and 68: a rule fires where it should and nowhere else, and tells the truth.
TEST(Schema, ARangeIsTrueInBothDirections) {
  EXPECT_EQ(read("{\"factor\": 8}").factor, 8.0);
  EXPECT_EQ(read("{\"factor\": 8.0}").factor, 8.0);
  EXPECT_EQ(read("{\"factor\": 1}").factor, 1.0);
  EXPECT_EQ(refusal("{\"factor\": 0.5}"), "c.json:1:12: /factor: 0.5 is below 1");
  EXPECT_EQ(refusal("{\"factor\": 0}"), "c.json:1:12: /factor: 0 is below 1");
  EXPECT_EQ(refusal("{\"factor\": -1}"), "c.json:1:12: /factor: -1 is below 1");
  EXPECT_THAT(refusal("{\"factor\": 1e400}"), testing::HasSubstr("1e400 is outside the range of a double"));
  EXPECT_EQ(refusal("{\"factor\": \"8\"}"), "c.json:1:12: /factor: \"8\" is not a finite number (write 8 without quotes)");
  EXPECT_EQ(refusal("{\"lr\": 0}"), "c.json:1:8: /lr: 0 is not greater than 0");
  EXPECT_EQ(refusal("{\"lr\": 10.5}"), "c.json:1:8: /lr: 10.5 is above 10");
  EXPECT_EQ(refusal("{\"lr\": 10, \"steps\": 1}"), "");
}

// Fault 67.
TEST(Schema, ACheckOverFieldsRunsOnceTheFieldsAreRight) {
  EXPECT_EQ(refusal("{\"steps\": 13}"), "c.json:1:11: /steps: 13 is unlucky (try 12)");
  EXPECT_EQ(refusal("{\"steps\": 13, \"lr\": 0}"), "c.json:1:21: /lr: 0 is not greater than 0");
  EXPECT_EQ(refusal("{\"steps\": 12}"), "");
}

TEST(Schema, AChoiceNamesTheOthersAndTheNearest) {
  EXPECT_EQ(refusal("{\"activation\": \"gelo\"}"),
            "c.json:1:16: /activation: \"gelo\" is not one of gelu, gelu_tanh, swiglu, relu (did you mean \"gelu\"?)");
  EXPECT_EQ(refusal("{\"protocols\": [\"fixed\", \"x\"]}"), "c.json:1:25: /protocols/1: \"x\" is not one of fixed, sliding");
  EXPECT_THAT(refusal("{\"activation\": 3}"), testing::HasSubstr("3 is not a string (write it in double quotes)"));
}

TEST(Schema, ContainersNeedTheirOwnKind) {
  EXPECT_EQ(refusal("[]"), "c.json:1:1: [] is not an object");
  EXPECT_EQ(refusal("{\"plan\": 3}"), "c.json:1:10: /plan: 3 is not an object");
  EXPECT_EQ(refusal("{\"lengths\": 3}"), "c.json:1:13: /lengths: 3 is not an array");
}

TEST(Schema, RefusesANumberThatIsNotFinite) {
  EXPECT_THROW(from_json<Sample>({{"factor", std::numeric_limits<double>::infinity()}}), ConfigError);
  EXPECT_THROW(from_json<Sample>({{"steps", std::numeric_limits<double>::quiet_NaN()}}), ConfigError);
}

TEST(Schema, WritesEveryDefaultAndReadsItBack) {
  const std::string text = dump_json_line(schema<Sample>().write(Sample{}));
  EXPECT_EQ(text,
            "{\"steps\":1000,\"seed\":1,\"lr\":0.001,\"factor\":1.0,\"tie\":true,\"activation\":\"gelu\",\"lengths\":[128,256],"
            "\"protocols\":[\"fixed\"],\"plans\":[],\"window\":null,\"plan\":{\"first\":0}}");
  EXPECT_EQ(dump_json_line(schema<Sample>().write(read(text))), text);
}

TEST(Schema, DescribesItselfAsJsonSchema) {
  const Json description = schema<Sample>().describe();
  EXPECT_EQ(description["additionalProperties"], false);
  EXPECT_EQ(dump_json_line(description["properties"]["steps"]),
            "{\"type\":\"integer\",\"minimum\":1,\"maximum\":1000000000,\"description\":\"optimizer steps\",\"default\":1000}");
  EXPECT_EQ(dump_json_line(description["properties"]["lr"]),
            "{\"type\":\"number\",\"maximum\":10,\"exclusiveMinimum\":0,"
            "\"description\":\"peak learning rate\",\"default\":0.001}");
  EXPECT_EQ(dump_json_line(description["properties"]["activation"]["enum"]), "[\"gelu\",\"gelu_tanh\",\"swiglu\",\"relu\"]");
}

TEST(Schema, ARuleReadsAsText) {
  FieldRule rule;
  EXPECT_EQ(rule.text(), "");
  rule.min = 1, rule.max = 1 << 20;
  EXPECT_EQ(rule.text(), "≥ 1, ≤ 1048576");
  EXPECT_EQ((FieldRule{.min = {}, .max = 0.5, .above = 1e-9, .choices = {}}).text(), "> 1e-09, ≤ 0.5");
  EXPECT_EQ((FieldRule{.min = {}, .max = {}, .above = {}, .choices = {"a", "b"}}).text(), "one of a, b");
  EXPECT_EQ(schema<Sample>().document()[2].rule, "> 0, ≤ 10");
  EXPECT_EQ(schema<Sample>().document()[5].default_value, "\"gelu\"");
}

}  // namespace
}  // namespace posenc
