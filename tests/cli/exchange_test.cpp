// `posenc import` and `posenc export`: Hugging Face's Llama layout.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "cli/process.h"
#include "cli/runs.h"
#include "core/safetensors.h"

namespace posenc {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

fs::path peer(const char* name) { return fs::path(POSENC_SOURCE_DIR) / "tests/golden/models" / name; }

/// Ids 0 to 63 in an order without a pattern.
std::string ids(int count) {
  std::string text;
  std::uint64_t state = 3;
  for (int i = 0; i < count; ++i) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    text += std::to_string(state >> 58) + " ";
  }
  return text;
}

// llama_yarn declares YaRN with a factor: what it says is under it, at every length.
TEST(Import, MakesARunThatCanBeEvaluatedAndContinued) {
  const Scratch scratch;
  const fs::path out = scratch / "llama", text = write_text(scratch / "ids.txt", ids(4000));
  const Outcome imported = run({{"import", peer("llama_yarn"), "--out", out}});
  ASSERT_EQ(imported.code, 0) << imported.err;
  const Json config = read_json(out / "config.json");
  EXPECT_EQ(config["model"]["extension"]["method"], "yarn");
  EXPECT_EQ(config["train"]["length"], 16);
  const Outcome evaluated = run({{"eval", out, "--data", text, "--lengths", "16,64", "--extend", "ntk", "--set",
                                  "/eval/windows=4", "--set", "/eval/tokens=300", "--out", scratch / "r.json"}});
  ASSERT_EQ(evaluated.code, 0) << evaluated.err;
  const Json results = read_json(scratch / "r.json");
  EXPECT_EQ(results["unit"], "token");
  EXPECT_TRUE(results["cells"][0]["bits_per_byte"].is_null());
  EXPECT_GT(results["cells"][0]["ppl"], 64);  // weights that were never trained
  const Outcome text_refused = run({{"eval", out, "--data", write_text(scratch / "words.txt", sample_text())}});
  EXPECT_EQ(text_refused.code, 65);
  EXPECT_THAT(text_refused.err, HasSubstr("is no token id"));
  const Outcome generated = run({{"generate", out, "--prompt", "1 2 3", "--tokens", "5"}});
  ASSERT_EQ(generated.code, 0) << generated.err;
  EXPECT_EQ(run({{"import", peer("llama_yarn"), "--out", out}}).code, 2) << "replaced a run";
}

TEST(Import, SaysWhatIsNotALlama) {
  const Scratch scratch;
  const Outcome refused = run({{"import", peer("bloom_alibi_h4"), "--out", scratch / "x"}});
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err, HasSubstr("model_type"));
  EXPECT_FALSE(fs::exists(scratch / "x"));
  EXPECT_EQ(run({{"import", scratch / "nothing", "--out", scratch / "x"}}).code, 2);
}

TEST(Export, GivesBackWhatWasImported) {
  const Scratch scratch;
  ASSERT_EQ(run({{"import", peer("llama_default_gqa"), "--out", scratch / "run"}}).code, 0);
  const Outcome exported = run({{"export", scratch / "run", "--to", scratch / "hf"}});
  ASSERT_EQ(exported.code, 0) << exported.err;
  const TensorFile before = read_safetensors(peer("llama_default_gqa") / "model.safetensors"),
                   after = read_safetensors(scratch / "hf/model.safetensors");
  ASSERT_EQ(before.tensors.size(), after.tensors.size());
  for (const auto& [name, tensor] : before.tensors) {
    EXPECT_EQ(after.tensors.at(name).shape, tensor.shape) << name;
    EXPECT_TRUE(after.tensors.at(name).bytes == tensor.bytes) << name;
  }
  const Json theirs = read_json(peer("llama_default_gqa") / "config.json"), ours = read_json(scratch / "hf/config.json");
  for (const char* key : {"model_type", "vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers",
                          "num_attention_heads", "num_key_value_heads", "head_dim", "hidden_act", "rms_norm_eps", "rope_theta",
                          "tie_word_embeddings", "max_position_embeddings", "attention_bias"})
    EXPECT_EQ(ours.at(key), theirs.at(key)) << key;
  EXPECT_EQ(run({{"export", scratch / "run", "--to", scratch / "hf"}}).code, 2) << "wrote over what was there";
}

TEST(Export, RefusesAModelThatIsNoLlamaNamingEveryReason) {
  const Scratch scratch;
  const Outcome refused = run({{"export", whole_run().path, "--to", scratch / "hf"}});
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err, HasSubstr("swiglu"));
  EXPECT_FALSE(fs::exists(scratch / "hf"));
}

}  // namespace
}  // namespace posenc
