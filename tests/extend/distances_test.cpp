// Extensions that change which keys are seen, and at which distance.
#include <gmock/gmock.h>

#include "conformance/conformance.h"

namespace posenc {
namespace {

constexpr double kUnlimited = std::numeric_limits<double>::infinity();

Frame frame_of(std::int64_t n) {
  const Positions at{torch::arange(n, torch::kFloat64), 1};
  return {at, at, 0, 16};
}

/// The distance at which query i sees key j; NaN where it does not see it.
double seen(const Json& named, std::int64_t train, std::int64_t window, std::int64_t i, std::int64_t j) {
  const auto used = make_extension(named);
  const Frame frame = used->apply(frame_of(window), {train, window, kUnlimited});
  if (frame.unseen()[i][j].item<bool>()) return std::nan("");
  const bool far = frame.far && frame.is_far()[i][j].item<bool>();
  return (far ? frame.beyond() : frame).distances()[i][j].item<double>();
}

TEST(ReRope, ClipsDistancesAtTheWindow) {
  const Json named = {{"method", "rerope"}, {"window", 5}};
  EXPECT_EQ(seen(named, 16, 32, 20, 16), 4);
  EXPECT_EQ(seen(named, 16, 32, 20, 15), 5);
  EXPECT_EQ(seen(named, 16, 32, 31, 0), 5);
  EXPECT_EQ(seen("rerope", 16, 32, 31, 0), 8);  // half the training length
}

// w = 512, k = 16: d = 528 becomes 513, 2048 becomes 608.
TEST(LeakyReRope, SqueezesDistancesBeyondTheWindow) {
  const Json named = {{"method", "leaky_rerope"}, {"window", 512}, {"k", 16}};
  EXPECT_EQ(seen(named, 1024, 2049, 2048, 2048 - 511), 511);
  EXPECT_NEAR(seen(named, 1024, 2049, 2048, 2048 - 528), 513, 1e-9);
  EXPECT_NEAR(seen(named, 1024, 2049, 2048, 0), 608, 1e-9);
  EXPECT_NEAR(seen("leaky_rerope", 16, 64, 63, 0), 15, 1e-9);  // k by itself: the longest distance that training had
}

// Jin et al.: G = 4, W = 8.
TEST(SelfExtend, SeesFarKeysByGroups) {
  const Json named = {{"method", "self_extend"}, {"group", 4}, {"window", 8}};
  EXPECT_EQ(seen(named, 16, 32, 20, 13), 7);  // a neighbour
  EXPECT_EQ(seen(named, 16, 32, 20, 12), 8);
  EXPECT_EQ(seen(named, 16, 32, 20, 11), 9);
  EXPECT_EQ(seen(named, 16, 32, 20, 0), 11);
}

// L = 512, W = 128: a group of 4 reaches (512 − 128)·4 + 128 = 1664 tokens.
TEST(SelfExtend, TakesTheSmallestGroupThatReaches) {
  EXPECT_LE(seen("self_extend", 512, 1664, 1663, 0), 511);
  EXPECT_EQ(seen("self_extend", 512, 1664, 1663, 0),
            seen({{"method", "self_extend"}, {"group", 4}, {"window", 128}}, 512, 1664, 1663, 0));
  EXPECT_EQ(seen("self_extend", 512, 1665, 1664, 0),
            seen({{"method", "self_extend"}, {"group", 5}, {"window", 128}}, 512, 1665, 1664, 0));
}

TEST(String, ShiftsFarDistancesIntoTheTrainedRange) {
  const Json named = {{"method", "string"}, {"shift", 6}, {"window", 2}};
  EXPECT_EQ(seen(named, 16, 20, 19, 14), 5);
  EXPECT_EQ(seen(named, 16, 20, 19, 13), 2);
  EXPECT_EQ(seen(named, 16, 20, 19, 0), 15);
}

TEST(LmInfinite, SeesTheLastKeysAndTheFirstAndClipsDistances) {
  const Json named = {{"method", "lm_infinite"}, {"global", 2}, {"local", 8}};
  EXPECT_EQ(seen(named, 16, 32, 20, 13), 7);
  EXPECT_TRUE(std::isnan(seen(named, 16, 32, 20, 12)));
  EXPECT_TRUE(std::isnan(seen(named, 16, 32, 20, 2)));
  EXPECT_EQ(seen(named, 16, 32, 20, 1), 8);
  EXPECT_EQ(seen(named, 16, 32, 9, 1), 8);
  EXPECT_EQ(seen(named, 16, 32, 6, 0), 6);
}

// A cache of 2 sinks and 6 last keys: positions are those within it.
TEST(Streaming, CountsPositionsWithinTheCache) {
  const Json named = {{"method", "streaming"}, {"sinks", 2}, {"window", 6}};
  EXPECT_EQ(seen(named, 16, 32, 20, 15), 5);  // the oldest of the last six
  EXPECT_TRUE(std::isnan(seen(named, 16, 32, 20, 14)));
  EXPECT_EQ(seen(named, 16, 32, 20, 0), 7);  // the query stands at 7, the sinks at 0 and 1
  EXPECT_EQ(seen(named, 16, 32, 20, 1), 6);
  EXPECT_EQ(seen(named, 16, 32, 7, 0), 7);
  EXPECT_EQ(seen(named, 16, 32, 6, 0), 6);
}

TEST(Window, SeesTheLastKeys) {
  EXPECT_EQ(seen({{"method", "window"}, {"size", 4}}, 16, 32, 20, 17), 3);
  EXPECT_TRUE(std::isnan(seen({{"method", "window"}, {"size", 4}}, 16, 32, 20, 16)));
  EXPECT_EQ(seen("window", 16, 32, 20, 5), 15);
  EXPECT_TRUE(std::isnan(seen("window", 16, 32, 20, 4)));
}

Tensor under(const LanguageModel& model, const Tensor& tokens, const Json& named) {
  const auto used = make_extension(named);
  Pass pass;
  pass.extension = used.get();
  return logits_of(model, tokens, pass);
}

// The last piece is what the model says of the last tokens alone, whatever stands before.
TEST(Truncate, ShowsTheLastTokensOnly) {
  const auto model = tiny_model({{"position", "sinusoidal"}});
  const Tensor tokens = random_tokens(2, 40);
  const Tensor cut = under(*model, tokens, {{"method", "truncate"}, {"size", 12}});
  for (const auto& [begin, end] : {std::pair(28, 40), std::pair(16, 28), std::pair(4, 16), std::pair(0, 4)})
    EXPECT_TRUE(torch::allclose(cut.slice(1, begin, end), logits_of(*model, tokens.slice(1, begin, end)), 1e-5, 1e-5)) << begin;
  const auto learned = tiny_model({{"position", "learned"}});
  EXPECT_EQ(learned->refusal(400, make_extension("truncate").get()), "");
  EXPECT_NE(learned->refusal(400, make_extension({{"method", "truncate"}, {"size", 17}}).get()), "");
}

// A bias is that of the distance seen, also where queries and keys are moved by different amounts.
TEST(Distances, AlibiAddsTheBiasOfTheDistanceSeen) {
  const auto alibi = make_scheme("alibi", {{"slopes", "paper"}, {"bias_max", 8.0}}, {.heads = 4});  // slopes 1/4, 1/16, …
  for (const Json& named :
       {Json("rerope"), Json("leaky_rerope"), Json("self_extend"), Json("string"), Json("lm_infinite"), Json("streaming")}) {
    const Frame frame = make_extension(named)->apply(frame_of(40), {16, 40, kUnlimited});
    const MaskedBias bias(*alibi, frame, torch::kFloat64);
    int compared = 0;
    for (std::int64_t i = 0; i < 40; ++i) {
      for (std::int64_t j = 0; j <= i; ++j) {
        const double distance = seen(named, 16, 40, i, j);
        if (std::isnan(distance) || !frame.is_far()[i][j].item<bool>()) continue;
        EXPECT_NEAR(bias.far[0][i][j].item<double>(), -0.25 * distance, 1e-12) << named << " " << i << " " << j;
        ++compared;
      }
    }
    EXPECT_GT(compared, 0) << named;
  }
}

// What is the same on paper is the same to rounding; where nothing is far, to the bit.
TEST(Distances, SettingsThatChangeNothingGiveTheSchemeItself) {
  for (const char* scheme : {"rope", "alibi", "xpos"}) {
    const auto model = tiny_model({{"position", scheme}});
    const Tensor tokens = random_tokens(2, 40), plain = logits_of(*model, tokens);
    for (const Json& named :
         {Json{{"method", "rerope"}, {"window", 40}}, Json{{"method", "leaky_rerope"}, {"window", 5}, {"k", 1}},
          Json{{"method", "self_extend"}, {"group", 1}, {"window", 5}}, Json{{"method", "streaming"}, {"window", 40}},
          Json{{"method", "string"}, {"shift", 5}, {"window", 5}}, Json{{"method", "lm_infinite"}, {"local", 40}},
          Json{{"method", "window"}, {"size", 40}}, Json{{"method", "truncate"}, {"size", 40}},
          Json{{"method", "pi"}, {"factor", 1}}, Json{{"method", "drope"}, {"factor", 1}}, Json{{"method", "drope"}, {"c", 0}}}) {
      const Tensor extended = under(*model, tokens, named);
      if (named["method"] == "drope" && named.contains("c"))
        EXPECT_TRUE(torch::allclose(extended, plain, 1e-5, 1e-5)) << scheme << " " << named;  // times 1 on another path
      else EXPECT_TRUE(torch::equal(extended, plain)) << scheme << " " << named;
    }
    for (const Json& named :
         {Json{{"method", "rerope"}, {"window", 5}}, Json{{"method", "leaky_rerope"}, {"window", 5}, {"k", 2}},
          Json{{"method", "self_extend"}, {"group", 2}, {"window", 5}}, Json("streaming"), Json("string"), Json("lm_infinite"),
          Json("window"), Json("truncate"), Json("log_n"), Json("drope")})
      EXPECT_FALSE(torch::allclose(under(*model, tokens, named), plain, 1e-4, 1e-4)) << scheme << " " << named;
  }
}

// τ_i = ln(i+1)/ln L beyond the training length, on q·k alone: 16 keys → 1, 64 keys → ln 64/ln 16 = 1.5.
TEST(LogN, GrowsWithTheKeysSeen) {
  const Frame frame = make_extension("log_n")->apply(frame_of(64), {16, 64, kUnlimited});
  EXPECT_EQ(frame.temperature[0].item<double>(), 1);
  EXPECT_EQ(frame.temperature[15].item<double>(), 1);
  EXPECT_NEAR(frame.temperature[63].item<double>(), 1.5, 1e-12);
}

// 1 + 0.412·ln 4
TEST(Drope, IsOneFactorByTheLength) {
  const Frame frame = make_extension("drope")->apply(frame_of(64), {16, 64, kUnlimited});
  EXPECT_NEAR(frame.temperature[0].item<double>(), 1.5711532, 1e-6);
  EXPECT_TRUE(torch::equal(frame.temperature, frame.temperature[0].expand({64})));
}

// Blocks of queries take the far positions of their own rows.
TEST(Distances, TheBlockedPathGivesTheReferenceUnderEachOfThem) {
  const auto model = tiny_model({{"position", "rope"}, {"kv_heads", 2}}, torch::kFloat64);
  const Tensor tokens = random_tokens(2, 50);
  for (const Json& named :
       {Json("rerope"), Json("leaky_rerope"), Json("self_extend"), Json("string"), Json("lm_infinite"), Json("streaming"),
        Json("window"), Json("log_n"), Json({{"method", "dynamic_ntk"}, {"mode", "per_step"}})}) {
    const auto used = make_extension(named);
    Pass pass;
    pass.extension = used.get();
    pass.attention = AttentionPath::kReference;
    const Tensor whole = logits_of(*model, tokens, pass);
    pass.attention = AttentionPath::kBlocked;
    pass.block_rows = 7;
    EXPECT_TRUE(torch::allclose(logits_of(*model, tokens, pass), whole, 1e-10, 1e-10)) << named;
  }
}

}  // namespace
}  // namespace posenc
