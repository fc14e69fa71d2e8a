#include <gmock/gmock.h>

#include "schemes/scheme.h"

namespace posenc {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::shared_ptr<Scheme> built(const Json& parameters, const ModelShape& shape) {
  auto scheme = make_scheme("deberta", parameters, shape);
  scheme->share(scheme->register_shared());
  scheme->to(torch::kFloat64);
  return scheme;
}

void set(const Scheme& scheme, const char* name, const Tensor& values) {
  const torch::NoGradGuard no_grad;
  scheme.named_parameters()[name].copy_(values);
}

Frame frame_of(std::int64_t tokens) {
  const Tensor positions = torch::arange(tokens, torch::kFloat64);
  return {{positions}, {positions}, 0, tokens};
}

/// One head of width 3 in a model of width 3, three distances. The row of distance d is e_d; keys meet it as it is, queries
/// twice as large. q_i = (1, 2, 3) + 10·i and k_j = 100·(j + 1)·(1, 2, 3), for four tokens. All logits are `before`.
Tensor score(const std::vector<std::string>& terms, double before) {
  const auto scheme = built({{"buckets", 3}, {"terms", terms}}, {.d_model = 3, .heads = 1, .head_dim = 3});
  set(*scheme, "relative_embeddings", torch::eye(3));
  for (const std::string& term : terms) {
    if (term == "c2p") set(*scheme, "key_projection", torch::eye(3));
    else set(*scheme, "query_projection", 2 * torch::eye(3));
  }
  const Tensor one = torch::tensor({1.0, 2.0, 3.0}, torch::kFloat64), i = torch::arange(4, torch::kFloat64).unsqueeze(1);
  const Content content{(one + 10 * i).view({1, 1, 4, 3}), (100 * (i + 1) * one).view({1, 1, 4, 3}), {}, {}};
  const torch::NoGradGuard no_grad;
  return scheme->score(torch::full({1, 1, 4, 4}, before, torch::kFloat64), content, frame_of(4))[0][0].tril();
}

void expect_near(const Tensor& got, const Tensor& want) { EXPECT_TRUE(torch::allclose(got, want, 0, 1e-12)) << got; }

// q_i's number d and twice k_j's, d = min(i − j, 2): the third term is read along the keys.
TEST(Deberta, LogitsGainQueryAndKeyTimesTheVectorsOfTheDistance) {
  const Tensor c2p = torch::tensor({{1, 0, 0, 0}, {12, 11, 0, 0}, {23, 22, 21, 0}, {33, 33, 32, 31}}, torch::kFloat64);
  const Tensor p2c =
      torch::tensor({{200, 0, 0, 0}, {400, 400, 0, 0}, {600, 800, 600, 0}, {600, 1200, 1200, 800}}, torch::kFloat64);
  expect_near(score({"c2p", "p2c"}, 0), (c2p + p2c) / 3);  // √(3·3)
  expect_near(score({"c2p"}, 0), c2p / std::sqrt(6.0));    // √(2·3)
  expect_near(score({"p2c"}, 0), p2c / std::sqrt(6.0));
}

TEST(Deberta, TheContentIsDividedByTheRootOfTheNumberOfTerms) {
  const Tensor with = score({"c2p", "p2c"}, 6), without = score({"c2p", "p2c"}, 0);
  expect_near(with - without, torch::full({4, 4}, 6 / std::sqrt(3.0), torch::kFloat64).tril());
  expect_near(score({"p2c"}, 6) - score({"p2c"}, 0), torch::full({4, 4}, 6 / std::sqrt(2.0), torch::kFloat64).tril());
}

/// The row of each distance: with one channel that counts rows, c2p alone is row/√2.
std::vector<std::int64_t> rows(const Json& parameters, const std::vector<double>& distances, std::int64_t train_length = 1) {
  Json only_c2p = parameters;
  only_c2p["terms"] = {"c2p"};
  const auto scheme = built(only_c2p, {.d_model = 1, .heads = 1, .head_dim = 1, .train_length = train_length});
  const std::int64_t count = scheme->shared()[0].size(0);
  set(*scheme, "relative_embeddings", torch::arange(count, torch::kFloat64).unsqueeze(1));
  set(*scheme, "key_projection", torch::ones({1, 1}));
  std::vector<std::int64_t> found;
  for (const double d : distances) {
    const Frame frame{{torch::full({1}, d, torch::kFloat64), 0}, {torch::zeros({1}, torch::kFloat64), 0}, 0, 4};
    const Tensor one = torch::ones({1, 1, 1, 1}, torch::kFloat64);
    found.push_back(std::lround(scheme->score(0 * one, {one, one, {}, {}}, frame).item<double>() * std::sqrt(2.0)));
  }
  return found;
}

TEST(Deberta, HasARowPerDistanceUpToTheTrainingLength) {
  EXPECT_THAT(rows(Json::object(), {0, 1, 7, 8, 1e9}, 8), ElementsAre(0, 1, 7, 7, 7));
  EXPECT_THAT(rows({{"buckets", 4}}, {0, 1, 3, 3.5, 4, 100}, 8), ElementsAre(0, 1, 3, 3, 3, 3));
}

// Values of the authors' make_log_bucket_position, v2; the last row also for what it puts beyond the table.
TEST(Deberta, LogarithmicRowsAreThoseOfVersionTwo) {
  EXPECT_THAT(rows({{"buckets", 8}, {"log_distance", 20}}, {0, 3, 4, 5, 6, 7, 11, 12, 19, 20, 1e9}),
              ElementsAre(0, 3, 4, 5, 5, 6, 6, 7, 7, 7, 7));
  EXPECT_THAT(rows({{"buckets", 256}, {"log_distance", 512}}, {127, 128, 129, 140, 150, 200, 256, 300, 400, 505, 510, 511, 512}),
              ElementsAre(127, 128, 129, 137, 143, 169, 192, 207, 233, 254, 255, 255, 255));
}

TEST(Deberta, AllLayersShareTheRowsAndEachHasItsProjections) {
  const ModelShape shape{.d_model = 12, .heads = 3, .head_dim = 4, .train_length = 7};
  const auto first = built(Json::object(), shape), second = make_scheme("deberta", Json::object(), shape);
  second->share(first->shared());
  EXPECT_THAT(first->named_parameters().keys(), ElementsAre("key_projection", "query_projection", "relative_embeddings"));
  EXPECT_THAT(second->named_parameters().keys(), ElementsAre("key_projection", "query_projection"));
  EXPECT_EQ(first->shared()[0].sizes(), torch::IntArrayRef({7, 12}));
  EXPECT_EQ(second->used_parameters().size(), 3u);
}

TEST(Deberta, StartsFromANormalDistributionOfDeviationTwoHundredths) {
  const auto scheme = built({{"buckets", 512}}, {.d_model = 128, .heads = 4, .head_dim = 64});
  scheme->initialise(torch::make_generator<torch::CPUGeneratorImpl>(1));
  scheme->initialise_shared(torch::make_generator<torch::CPUGeneratorImpl>(2));
  for (const auto& item : scheme->named_parameters())
    EXPECT_NEAR(item.value().std().item<double>(), 0.02, 5e-4) << item.key();  // of 2^15 draws and more
}

std::vector<std::string> problems_of(const Json& parameters, std::int64_t train_length) {
  std::vector<Problem> problems;
  const Document document{parameters, "test", {}};
  const Reader reader(document, problems);
  const SchemeInfo& info = *find_registered(schemes(), "deberta");
  const Json resolved = info.resolve(parameters, reader);
  if (problems.empty()) info.check(resolved, {.train_length = train_length}, reader);
  std::vector<std::string> found;
  for (const Problem& problem : problems) found.push_back(problem.pointer + ": " + problem.rule);
  return found;
}

TEST(Deberta, RowsThatCannotBeAreRefused) {
  EXPECT_THAT(problems_of({{"buckets", 8}, {"log_distance", 20}}, 16), ElementsAre());
  EXPECT_THAT(problems_of({{"log_distance", 64}}, 16), ElementsAre());
  EXPECT_THAT(problems_of({{"buckets", 7}, {"log_distance", 20}}, 16), ElementsAre(HasSubstr("/buckets: ")));
  EXPECT_THAT(problems_of({{"log_distance", 64}}, 15), ElementsAre(HasSubstr("/log_distance: ")));
  EXPECT_THAT(problems_of({{"log_distance", 16}}, 16), ElementsAre(HasSubstr("16 must exceed buckets = 16")));
  EXPECT_THAT(problems_of({{"terms", Json::array()}}, 16), ElementsAre(HasSubstr("names no term")));
  EXPECT_THAT(problems_of({{"terms", {"p2c", "p2c"}}}, 16), ElementsAre(HasSubstr("names a term twice")));
}

}  // namespace
}  // namespace posenc
