#include <gmock/gmock.h>

#include "schemes/scheme.h"

namespace posenc {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

Frame frame_at(const std::vector<double>& positions, Visibility visible = {}) {
  const Positions all{torch::tensor(positions, torch::kFloat64), 0};
  return {all, all, 0, 4, visible};
}

Frame frame_of(std::int64_t tokens, Visibility visible = {}) {
  const Tensor positions = torch::arange(tokens, torch::kFloat64);
  return {{positions}, {positions}, 0, tokens, visible};
}

/// Over ALiBi in double; `parameters` by name.
std::shared_ptr<Scheme> over_alibi(const std::string& name, std::int64_t heads, Json settings,
                                   const std::vector<std::pair<std::string, std::vector<double>>>& parameters) {
  settings["over"] = "alibi";
  auto scheme = make_scheme(name, settings, {.d_model = heads, .heads = heads, .head_dim = 1});
  scheme->to(torch::kFloat64);
  const torch::NoGradGuard no_grad;
  auto named = scheme->named_parameters();
  for (const auto& [key, values] : parameters) named[key].copy_(torch::tensor(values, torch::kFloat64).view_as(named[key]));
  return scheme;
}

/// Logits [H, Q, K] in and out; 0 where a query may not look.
Tensor score(const Scheme& scheme, const Tensor& logits, const Frame& frame) {
  const torch::NoGradGuard no_grad;
  const Tensor s = logits.masked_fill(frame.unseen(), 0).unsqueeze(0);
  return scheme.score(s, {}, frame)[0].masked_fill(frame.unseen(), 0);
}

Tensor random_logits(std::int64_t heads, std::int64_t tokens) {
  return torch::empty({heads, tokens, tokens}, torch::kFloat64).normal_(0, 1, torch::make_generator<torch::CPUGeneratorImpl>(6));
}

// One head of ALiBi has the slope 2^-8: −1 at distance 256. The network is 5·LeakyReLU(2·A + 3·B + 1).
TEST(Dape, LogitsAndBiasAndWhatTheNetworkMakesOfThemAddUp) {
  const auto scheme =
      over_alibi("dape", 1, {{"hidden", 1}}, {{"hidden_weight", {2, 3}}, {"hidden_bias", {1}}, {"output_weight", {5}}});
  const auto at = [&](double logit, double distance) {
    Tensor s = torch::zeros({1, 2, 2}, torch::kFloat64);
    s[0][1][0] = logit;
    return score(*scheme, s, frame_at({0, distance}))[0][1][0].item<double>();
  };
  EXPECT_NEAR(at(1, 0), 1 + 0 + 15, 1e-12);
  EXPECT_NEAR(at(-1, 0), -1 + 0 - 0.05, 1e-12);
  EXPECT_NEAR(at(1, 256), 1 - 1 + 0, 1e-12);
  EXPECT_NEAR(at(0, 256), 0 - 1 - 0.1, 1e-12);
}

// Two heads, slopes 1/16 and 1/256; the hidden unit reads logits 10 and 100 fold, biases 1000 and 10000 fold, and writes to head 1.
TEST(Dape, EveryHeadSeesTheLogitsAndBiasesOfAll) {
  const auto scheme =
      over_alibi("dape", 2, {{"hidden", 1}}, {{"hidden_weight", {10, 100, 1000, 10000}}, {"output_weight", {0, 1}}});
  Tensor s = torch::zeros({2, 2, 2}, torch::kFloat64);
  s[0][1][0] = 30;
  s[1][1][0] = 5;
  const Tensor z = score(*scheme, s, frame_at({0, 1}));
  EXPECT_NEAR(z[0][1][0].item<double>(), 30 - 0.0625, 1e-12);
  EXPECT_NEAR(z[1][1][0].item<double>(), 5 - 0.00390625 + 300 + 500 - 62.5 - 39.0625, 1e-12);
}

TEST(Dape, TrainingStartsFromTheBaseScheme) {
  for (const char* name : {"dape", "dape_v2"}) {
    const auto scheme = over_alibi(name, 2, Json::object(), {});
    scheme->initialise(torch::make_generator<torch::CPUGeneratorImpl>(1));
    const Tensor z = score(*scheme, torch::zeros({2, 2, 2}, torch::kFloat64), frame_at({0, 32}));
    EXPECT_TRUE(torch::equal(z, torch::tensor({{{0.0, 0.0}, {-2.0, 0.0}}, {{0.0, 0.0}, {-0.125, 0.0}}}, torch::kFloat64)))
        << name;
    EXPECT_GT(scheme->named_parameters()["hidden_weight"].abs().max().item<double>(), 0.1) << name;
  }
}

TEST(Dape, TheFirstLayerStartsUniformByItsInputs) {
  const auto scheme = make_scheme("dape_v2", {{"over", "alibi"}, {"hidden", 4096}, {"kernel", 3}}, {.heads = 6});
  scheme->initialise(torch::make_generator<torch::CPUGeneratorImpl>(1));
  const Tensor weight = scheme->named_parameters()["hidden_weight"];  // 2·6·3 inputs: ± 1/6
  EXPECT_LE(weight.abs().max().item<double>(), 0.16666667);
  EXPECT_NEAR(weight.std().item<double>(), 0.16666667 / std::sqrt(3.0), 1e-3);
}

/// Convolutions that read the key `ahead` of theirs, each: 1 in that place of a kernel of 3.
std::shared_ptr<Scheme> reading(int ahead, double hidden_bias = 0) {
  std::vector<double> first(6, 0), second(3, 0);
  first[static_cast<std::size_t>(1 + ahead)] = second[static_cast<std::size_t>(1 + ahead)] =
      1;  // the first three are the logits'
  return over_alibi("dape_v2", 1, {{"hidden", 1}, {"kernel", 3}},
                    {{"hidden_weight", first}, {"hidden_bias", {hidden_bias}}, {"output_weight", second}});
}

/// What reading() adds to the logits 10·(i + 1) + j + 1 of four tokens.
Tensor read(const Scheme& scheme, const Frame& frame) {
  const Tensor i = torch::arange(1, 5, torch::kFloat64);
  const Tensor s = (10 * i.unsqueeze(1) + i).unsqueeze(0);
  const Tensor bias = (frame.distances() * -0.00390625).masked_fill(frame.unseen(), 0);
  return score(scheme, s, frame)[0] - s[0].masked_fill(frame.unseen(), 0) - bias;
}

Tensor rows(std::initializer_list<std::vector<double>> values) {
  std::vector<Tensor> all;
  for (const auto& row : values) all.push_back(torch::tensor(row, torch::kFloat64));
  return torch::stack(all);
}

void expect_near(const Tensor& got, const Tensor& want) { EXPECT_TRUE(torch::allclose(got, want, 0, 1e-12)) << got; }

TEST(DapeV2, TheNetworkSeesNeighbouringKeysAndNoneBeyondTheQuery) {
  expect_near(read(*reading(-1), frame_of(4)), rows({{0, 0, 0, 0}, {0, 0, 0, 0}, {0, 0, 31, 0}, {0, 0, 41, 42}}));
  expect_near(read(*reading(0), frame_of(4)), rows({{11, 0, 0, 0}, {21, 22, 0, 0}, {31, 32, 33, 0}, {41, 42, 43, 44}}));
  expect_near(read(*reading(1), frame_of(4)), rows({{0, 0, 0, 0}, {0, 0, 0, 0}, {33, 0, 0, 0}, {43, 44, 0, 0}}));
}

TEST(DapeV2, TheNetworkSeesNoKeyOutsideTheWindow) {
  expect_near(read(*reading(-1), frame_of(4, {.window = 2})), rows({{0, 0, 0, 0}, {0, 0, 0, 0}, {0, 0, 0, 0}, {0, 0, 0, 0}}));
  expect_near(read(*reading(0), frame_of(4, {.window = 2})),
              rows({{11, 0, 0, 0}, {21, 22, 0, 0}, {0, 32, 33, 0}, {0, 0, 43, 44}}));
}

// The hidden unit is 1 beyond a query's last key. The authors' last query finds 0 there, so that its weights would change with
// the next token.
TEST(DapeV2, TheLastQueryIsTreatedAsEveryOther) {
  expect_near(read(*reading(1, 1), frame_of(4)), rows({{1, 0, 0, 0}, {1, 1, 0, 0}, {34, 1, 1, 0}, {44, 45, 1, 1}}));
}

TEST(DapeV2, LaterKeysChangeNothing) {
  for (const std::int64_t kernel : {1, 3, 7}) {
    const auto scheme = over_alibi("dape_v2", 2, {{"kernel", kernel}}, {});
    const torch::NoGradGuard no_grad;
    const auto generator = torch::make_generator<torch::CPUGeneratorImpl>(2);
    for (Tensor& p : scheme->parameters()) p.normal_(0, 1, generator);
    const Tensor logits = random_logits(2, 9), whole = score(*scheme, logits, frame_of(9));
    for (std::int64_t n = 1; n < 9; ++n) {
      const Tensor part = score(*scheme, logits.slice(1, 0, n).slice(2, 0, n), frame_of(n));
      EXPECT_TRUE(torch::allclose(part, whole.slice(1, 0, n).slice(2, 0, n), 0, 1e-12)) << kernel << ", " << n;
    }
  }
}

TEST(DapeV2, AKernelOfOneIsVersionOne) {
  const auto one = over_alibi("dape", 2, Json::object(), {}), two = over_alibi("dape_v2", 2, {{"kernel", 1}}, {});
  const torch::NoGradGuard no_grad;
  const auto generator = torch::make_generator<torch::CPUGeneratorImpl>(2);
  for (std::size_t i = 0; i < one->parameters().size(); ++i) {
    Tensor a = one->parameters()[i], b = two->parameters()[i];
    b.copy_(a.normal_(0, 1, generator));
  }
  expect_near(score(*two, random_logits(2, 5), frame_of(5)), score(*one, random_logits(2, 5), frame_of(5)));
}

struct Read {
  Json resolved;
  std::vector<std::string> problems;
};

Read read_parameters(const Json& parameters, const std::string& name = "dape") {
  std::vector<Problem> problems;
  const Document document{parameters, "test", {}};
  const Reader reader(document, problems);
  const SchemeInfo& info = *find_registered(schemes(), name);
  const Json resolved = info.resolve(parameters, reader);
  if (problems.empty()) info.check(resolved, {.heads = 4}, reader);
  Read read{resolved, {}};
  for (const Problem& problem : problems) read.problems.push_back(problem.pointer + ": " + problem.rule);
  return read;
}

TEST(DapeOver, IsASchemeByNameOrObjectWithItsDefaultsWrittenOut) {
  EXPECT_EQ(read_parameters(Json::object()).resolved["over"]["scheme"], "kerple_log");
  const Json named = read_parameters({{"over", "linear_bias"}}).resolved["over"];
  EXPECT_EQ(named["scheme"], "alibi");
  EXPECT_EQ(named["bias_max"], 8.0);
  EXPECT_EQ(read_parameters({{"over", named}}).resolved["over"], named);
  const Json object = read_parameters({{"over", {{"scheme", "alibi"}, {"bias_max", 4}}}}).resolved["over"];
  EXPECT_EQ(object["bias_max"], 4.0);
}

TEST(DapeOver, ItsParametersReachTheScheme) {
  const auto scheme = make_scheme("dape", {{"over", {{"scheme", "alibi"}, {"bias_max", 4.0}}}}, {.heads = 1});
  const Tensor z = score(*scheme, torch::zeros({1, 2, 2}), frame_at({0, 16}));
  EXPECT_EQ(z[0][1][0].item<double>(), -1);  // a slope of 2^-4
}

TEST(DapeOver, WhatIsNoBiasIsRefusedNamingThoseThereAre) {
  for (const char* name : {"rope", "dape", "learned", "none"}) {
    EXPECT_THAT(read_parameters({{"over", name}}).problems,
                ElementsAre(AllOf(HasSubstr("/over: no scheme with a bias is called \"" + std::string(name)),
                                  HasSubstr("alibi, "), HasSubstr("t5"))));
  }
}

TEST(DapeOver, ProblemsPointIntoIt) {
  EXPECT_THAT(read_parameters({{"over", {{"scheme", "alibi"}, {"bias_max", -1}}}}).problems,
              ElementsAre(HasSubstr("/over/bias_max: ")));
  EXPECT_THAT(read_parameters({{"over", {{"scheme", "alibi"}, {"slope", 1}}}}).problems, ElementsAre(HasSubstr("slopes")));
  EXPECT_THAT(read_parameters({{"over", {{"scheme", "alibi"}, {"biased_heads", 5}}}}).problems,
              ElementsAre(HasSubstr("/over/biased_heads: 5")));  // more than the 4 heads
}

TEST(DapeOver, ItHasAsManyCopiesAsTheNetwork) {
  EXPECT_THAT(read_parameters({{"over", {{"scheme", "t5"}, {"share_layers", true}}}}).problems,
              ElementsAre(HasSubstr("/over/share_layers: ")));
  EXPECT_FALSE(read_parameters({{"over", "t5"}}).resolved["over"].contains("share_layers"));
  EXPECT_THAT(find_registered(schemes(), "dape")->describe()["properties"]["over"].dump(), Not(HasSubstr("share_layers")));
}

TEST(DapeOver, ATableOfTheBaseSchemeIsTrainedWithTheNetwork) {
  const auto scheme = make_scheme("dape", {{"over", "t5"}}, {.d_model = 16, .heads = 2});
  scheme->initialise(torch::make_generator<torch::CPUGeneratorImpl>(1));
  EXPECT_EQ(scheme->named_parameters()["over.table"].sizes(), torch::IntArrayRef({32, 2}));
  EXPECT_GT(scheme->named_parameters()["over.table"].abs().max().item<double>(), 0.1);
}

TEST(DapeOver, ItsBoundsAreKeptInTraining) {
  const auto scheme = make_scheme("dape", {{"over", "kerple_log"}}, {.heads = 2});
  Tensor r1 = scheme->named_parameters()["over.r1"];
  r1.data().copy_(torch::tensor({-1.0, 0.5}));
  scheme->constrain();
  EXPECT_TRUE(torch::equal(r1, torch::tensor({0.01, 0.5})));
}

TEST(DapeV2, AnEvenKernelIsRefused) {
  EXPECT_THAT(read_parameters({{"kernel", 4}}, "dape_v2").problems, ElementsAre(HasSubstr("/kernel: 4 is even")));
}

}  // namespace
}  // namespace posenc
