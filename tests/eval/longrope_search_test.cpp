#include "eval/longrope_search.h"

#include <gtest/gtest.h>

#include <set>

#include "conformance/conformance.h"
#include "core/error.h"

namespace posenc {
namespace {

struct Searched {
  std::shared_ptr<LanguageModel> model = tiny_model({{"position", "rope"}}, torch::kFloat32, 256);
  Dataset dataset = text_dataset("what is searched for is a few numbers, and text to search on " + std::string(200, 'x') +
                                 " of some length, with words and without, over and over again: words, numbers, words.");
  LongRopeSettings settings{
      .length = 64, .train_length = kTrainLength, .pairs = 4, .population = 8, .iterations = 4, .windows = 2, .targets = 16};
  LongRopeSearch make() const { return LongRopeSearch(*model, dataset.valid, settings, {}); }
};

TEST(LongRopeSearch, IsNoWorseThanWhatItStartsFromAndNeverLosesTheBest) {
  const Searched s;
  LongRopeSearch search = s.make();
  double best = 1e9;
  std::set<std::int64_t> unscaled;
  while (!search.finished()) {
    search.step();
    EXPECT_LE(search.best_nll(), best);
    best = search.best_nll();
    const Json state = search.state();
    for (const Json& candidate : state["population"]) {
      const auto factors = candidate["factors"].get<std::vector<double>>();
      ASSERT_EQ(factors.size(), 4u);
      unscaled.insert(candidate["unscaled"].get<std::int64_t>());
      EXPECT_TRUE(std::is_sorted(factors.begin(), factors.end()));
      EXPECT_GE(factors.front(), 1);
      EXPECT_LE(factors.back(), 5);  // 1.25·64/16
    }
  }
  EXPECT_GT(unscaled.size(), 1u);
  for (const char* seed : {"pi", "ntk", "yarn"}) EXPECT_LE(best, search.seeds()[seed].get<double>()) << seed;
}

// What it reports is what the evaluation of that extension says.
TEST(LongRopeSearch, ItsNumberIsTheLossUnderTheExtension) {
  const Searched s;
  LongRopeSearch search = s.make();
  search.step();
  const auto best = make_extension(longrope_extension(search.best(), 4));
  const auto windows = fixed_target_windows(static_cast<std::int64_t>(s.dataset.valid.tokens.size()), 64, 64, 16, 2);
  double sum = 0;
  for (const auto& window : score_windows(*s.model, s.dataset.valid.tokens, windows, best.get(), {})) {
    for (const double nll : window) sum += nll;
  }
  EXPECT_NEAR(search.best_nll(), sum / 32, 1e-12);
}

TEST(LongRopeSearch, GoesOnFromItsStateAsIfItHadNotStopped) {
  const Searched s;
  LongRopeSearch whole = s.make(), first = s.make(), second = s.make();
  while (!whole.finished()) whole.step();
  first.step();
  first.step();
  second.restore(Json::parse(first.state().dump()), "state.json");
  EXPECT_EQ(second.iteration(), 2);
  while (!second.finished()) second.step();
  EXPECT_EQ(second.best(), whole.best());
  EXPECT_EQ(second.state(), whole.state());
}

TEST(LongRopeSearch, RefusesAnotherSearchAndALengthOfTraining) {
  Searched s;
  LongRopeSearch search = s.make();
  search.step();
  s.settings.seed = 2;
  EXPECT_THROW(s.make().restore(search.state(), "state.json"), ConfigError);
  EXPECT_THROW(s.make().restore(Json::object(), "state.json"), DataError);
  s.settings.length = kTrainLength;
  EXPECT_THROW(s.make(), ConfigError);
}

}  // namespace
}  // namespace posenc
