#include "eval/generate.h"

#include <gmock/gmock.h>

#include "conformance/conformance.h"
#include "core/error.h"

namespace posenc {
namespace {

using Tokens = std::vector<std::int32_t>;

Tokens tokens_of(std::int64_t length, std::uint64_t seed) {
  const Tensor drawn = random_tokens(1, length, seed)[0].to(torch::kInt32);
  return {drawn.data_ptr<std::int32_t>(), drawn.data_ptr<std::int32_t>() + length};
}

/// Greedy continuation by whole forwards, each over all tokens so far; `window` is the length that positions are for.
Tokens by_full_forwards(const LanguageModel& model, Tokens tokens, std::int64_t count, const Extension* used) {
  const std::size_t prompt = tokens.size();
  Pass pass;
  pass.extension = used;
  pass.window = static_cast<std::int64_t>(prompt) + count;
  for (std::int64_t i = 0; i < count; ++i) {
    const Tensor logits = logits_of(model, torch::tensor(tokens, torch::kInt64).unsqueeze(0), pass);
    tokens.push_back(logits[0][-1].argmax().item<std::int32_t>());
  }
  return {tokens.begin() + static_cast<std::ptrdiff_t>(prompt), tokens.end()};
}

TEST(Generate, GreedyDecodingIsWhatFullForwardsSay) {
  for (const char* scheme : {"rope", "alibi", "sinusoidal", "t5", "fox", "cope", "shaw"}) {
    const auto model = tiny_model({{"position", scheme}, {"kv_heads", 2}});
    const Tokens prompt = tokens_of(21, 3);
    GenerateSettings settings;
    settings.tokens = 12;
    settings.prefill = 8;  // three blocks, the last one short
    EXPECT_EQ(generate(*model, {prompt}, settings)[0], by_full_forwards(*model, prompt, 12, nullptr)) << scheme;
  }
  const auto model = tiny_model({{"position", "rope"}});
  for (const Json& named : {Json("pi"), Json("yarn"), Json("self_extend"), Json("streaming"), Json("truncate"),
                            Json({{"method", "dynamic_ntk"}, {"mode", "per_step"}})}) {
    const auto used = make_extension(named);
    GenerateSettings settings;
    settings.tokens = 20;
    settings.extension = used.get();
    EXPECT_EQ(generate(*model, {tokens_of(9, 4)}, settings)[0], by_full_forwards(*model, tokens_of(9, 4), 20, used.get()))
        << named;
  }
}

// Fault 37: in a batch no prompt stands at other positions than alone, whatever the lengths of the others.
TEST(Generate, APromptInABatchGoesOnAsAlone) {
  for (const char* scheme : {"sinusoidal", "learned", "rope", "alibi"}) {
    const auto model = tiny_model({{"position", scheme}});
    const std::vector<Tokens> prompts = {tokens_of(5, 1), tokens_of(9, 2), tokens_of(5, 3), tokens_of(1, 4)};
    GenerateSettings settings;
    settings.tokens = 7;
    const auto together = generate(*model, prompts, settings);
    for (std::size_t i = 0; i < prompts.size(); ++i)
      EXPECT_EQ(together[i], generate(*model, {prompts[i]}, settings)[0]) << scheme << " " << i;
  }
}

TEST(Generate, DrawsFollowFromTheSeedAndStreamInOrder) {
  const auto model = tiny_model({{"position", "rope"}});
  GenerateSettings settings;
  settings.tokens = 30;
  settings.sampling.temperature = 1;
  Tokens streamed;
  const auto first =
      generate(*model, {tokens_of(4, 1)}, settings, [&](std::size_t, std::int32_t token) { streamed.push_back(token); });
  EXPECT_EQ(first[0], streamed);
  EXPECT_EQ(first, generate(*model, {tokens_of(4, 1)}, settings));
  settings.seed = 2;
  EXPECT_NE(first, generate(*model, {tokens_of(4, 1)}, settings));
}

TEST(Generate, WhatTheModelCannotRepresentIsRefusedBeforeTheFirstToken) {
  const auto model = tiny_model({{"position", "learned"}});
  GenerateSettings settings;
  settings.tokens = 10;
  int emitted = 0;
  const auto count = [&](std::size_t, std::int32_t) { ++emitted; };
  EXPECT_THROW(generate(*model, {tokens_of(7, 1)}, settings, count), ConfigError);
  EXPECT_THROW(generate(*model, {tokens_of(3, 1), {}}, settings, count), ConfigError);
  EXPECT_EQ(emitted, 0);
}

}  // namespace
}  // namespace posenc
