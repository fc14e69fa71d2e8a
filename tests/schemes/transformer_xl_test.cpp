#include <gmock/gmock.h>

#include "model/language_model.h"
#include "schemes/scheme.h"

namespace posenc {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Frame frame_at(const Tensor& positions, double spacing) { return {{positions, spacing}, {positions, spacing}, 0, 4}; }

std::shared_ptr<Scheme> built(const Json& parameters, const ModelShape& shape, torch::ScalarType dtype = torch::kFloat64) {
  auto scheme = make_scheme("transformer_xl", parameters, shape);
  scheme->share(scheme->register_shared());
  scheme->to(dtype);
  return scheme;
}

/// One head of width 2 in a model of width 2: R_d = (sin d, cos d), W the identity.
std::shared_ptr<Scheme> plain(const Json& parameters = Json::object()) {
  const auto scheme = built(parameters, {.d_model = 2, .heads = 1, .head_dim = 2});
  const torch::NoGradGuard no_grad;
  scheme->named_parameters()["projection"].copy_(torch::eye(2));
  return scheme;
}

void set(const Scheme& scheme, const char* name, const std::vector<double>& values) {
  const torch::NoGradGuard no_grad;
  Tensor parameter = scheme.named_parameters()[name];
  parameter.copy_(torch::tensor(values, torch::kFloat64).view_as(parameter));
}

/// What the scheme adds for three tokens, times √2; queries q and keys k the same for all.
Tensor added(const Scheme& scheme, const std::vector<double>& q, const std::vector<double>& k, const Frame& frame) {
  const torch::NoGradGuard no_grad;
  const auto all = [&](const std::vector<double>& x) {
    return torch::tensor(x, torch::kFloat64).expand({1, 1, frame.key_count(), 2});
  };
  const Tensor s = torch::zeros({1, 1, frame.query_count(), frame.key_count()}, torch::kFloat64);
  return (scheme.score(s, {all(q), all(k), {}, {}}, frame) * std::sqrt(2.0))[0][0].tril();
}

Tensor three() { return torch::arange(3, torch::kFloat64); }

constexpr double kSin1 = 0.8414709848078965, kCos1 = 0.5403023058681398, kSin2 = 0.9092974268256817, kCos2 = -0.4161468365471424;

void expect_near(const Tensor& got, const std::vector<double>& want) {
  EXPECT_TRUE(torch::allclose(got.flatten(), torch::tensor(want, torch::kFloat64), 0, 1e-14)) << got;
}

TEST(TransformerXl, TheQueryMeetsTheSinusoidOfTheDistance) {
  for (const double spacing : {1.0, 0.0}) {
    expect_near(added(*plain(), {1, 0}, {0, 0}, frame_at(three(), spacing)), {0, 0, 0, kSin1, 0, 0, kSin2, kSin1, 0});
    expect_near(added(*plain(), {0, 1}, {0, 0}, frame_at(three(), spacing)), {1, 0, 0, kCos1, 1, 0, kCos2, kCos1, 1});
  }
}

TEST(TransformerXl, OneVectorStandsInForTheQueryAtKeysAndOneAtPositions) {
  for (const double spacing : {1.0, 0.0}) {
    const auto scheme = plain();
    set(*scheme, "content_bias", {10, 0});
    expect_near(added(*scheme, {0, 0}, {1, 5}, frame_at(three(), spacing)), {10, 0, 0, 10, 10, 0, 10, 10, 10});
    set(*scheme, "content_bias", {0, 0});
    set(*scheme, "position_bias", {0, 1});
    expect_near(added(*scheme, {0, 0}, {1, 5}, frame_at(three(), spacing)), {1, 0, 0, kCos1, 1, 0, kCos2, kCos1, 1});
  }
}

TEST(TransformerXl, DistancesBeyondTheClampCountAsTheClamp) {
  const auto scheme = plain({{"clamp_length", 1.0}});
  for (const double spacing : {1.0, 0.0})
    expect_near(added(*scheme, {1, 0}, {0, 0}, frame_at(three(), spacing)), {0, 0, 0, kSin1, 0, 0, kSin1, kSin1, 0});
}

TEST(TransformerXl, DistanceGoesByPosition) {
  const Tensor positions = torch::tensor({0.0, 1.0, 3.0}, torch::kFloat64);
  const double sin3 = 0.1411200080598672;
  expect_near(added(*plain(), {1, 0}, {0, 0}, frame_at(positions, 0)), {0, 0, 0, kSin1, 0, 0, sin3, kSin2, 0});
  expect_near(added(*plain(), {1, 0}, {0, 0}, frame_at(three() * 2, 2)), {0, 0, 0, kSin2, 0, 0, -0.7568024953079282, kSin2, 0});
}

// Two ways to the same numbers: a product with each distance, gathered; and sines of differences taken apart.
TEST(TransformerXl, EvenAndUnevenPositionsTakeTwoWaysToTheSameLogits) {
  const auto generator = torch::make_generator<torch::CPUGeneratorImpl>(3);
  const auto random = [&](at::IntArrayRef sizes) { return torch::empty(sizes, torch::kFloat64).normal_(0, 1, generator); };
  for (const Json& parameters : {Json::object(), Json{{"clamp_length", 7.5}, {"base", 50.0}}}) {
    const auto scheme = built(parameters, {.d_model = 12, .heads = 3, .head_dim = 4});
    const torch::NoGradGuard no_grad;
    for (Tensor& p : scheme->parameters()) p.copy_(random(p.sizes()));
    const Content content{random({2, 3, 5, 4}), random({2, 3, 20, 4}), {}, {}};
    for (const double step : {1.0, 0.25}) {
      const Tensor positions = torch::arange(20, torch::kFloat64) * step + 1000;
      Frame frame{{positions.slice(0, 15), step}, {positions, step}, 15, 20};
      const Tensor s = torch::zeros({2, 3, 5, 20}, torch::kFloat64);
      const Tensor even = scheme->score(s, content, frame).tril(15);
      frame.queries.spacing = frame.keys.spacing = 0;
      EXPECT_GT(even.abs().max().item<double>(), 1);
      EXPECT_TRUE(torch::allclose(scheme->score(s, content, frame).tril(15), even, 0, 1e-11));
    }
  }
}

TEST(TransformerXl, AllLayersShareTheTwoVectorsAndEachHasItsProjection) {
  const ModelShape shape{.d_model = 12, .heads = 3, .head_dim = 4};
  const auto first = built(Json::object(), shape), second = make_scheme("transformer_xl", Json::object(), shape);
  second->share(first->shared());
  EXPECT_EQ(first->named_parameters().keys().size(), 3u);
  EXPECT_THAT(second->named_parameters().keys(), ElementsAre("projection"));
  ASSERT_EQ(second->used_parameters().size(), 3u);
  EXPECT_TRUE(second->used_parameters()[1].is_same(first->named_parameters()["content_bias"]));
  // 820352 of a model without positions, 128·128 per layer, 2·4·32 once.
  ModelConfig config = from_json<ModelConfig>({{"position", "txl"}});
  config.resolve();
  EXPECT_EQ(make_model(config, 256, 128)->parameter_count(), 820352 + 4 * 16384 + 256);
}

TEST(TransformerXl, StartsFromANormalDistributionOfDeviationTwoHundredths) {
  const auto scheme = built(Json::object(), {.d_model = 2, .heads = 64, .head_dim = 512}, torch::kFloat32);
  scheme->initialise(torch::make_generator<torch::CPUGeneratorImpl>(1));
  scheme->initialise_shared(torch::make_generator<torch::CPUGeneratorImpl>(2));
  for (const auto& item : scheme->named_parameters())
    EXPECT_NEAR(item.value().std().item<double>(), 0.02, 5e-4) << item.key();  // of 2^15 draws and more
}

TEST(TransformerXl, AnOddModelWidthIsRefused) {
  std::vector<Problem> problems;
  const Document document{Json::object(), "test", {}};
  const SchemeInfo& info = *find_registered(schemes(), "txl");
  info.check(info.resolve(Json::object(), Reader(document, problems)), {.d_model = 9, .heads = 3, .head_dim = 3},
             Reader(document, problems));
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_THAT(problems[0].rule, HasSubstr("even d_model, not 9"));
}

}  // namespace
}  // namespace posenc
