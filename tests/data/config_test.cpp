#include "data/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "core/scratch.h"

namespace posenc {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

DataConfig read(const std::string& text) { return read_document<DataConfig>(parse_json(text, "x.json")); }

std::string refusal(const std::string& text) {
  return message_of<ConfigError>([&] { read(text); });
}

TEST(DataConfigTable, DefaultsToAustenByBytes) {
  const DataConfig config = read("{}");
  EXPECT_EQ(config.corpus, "austen");
  EXPECT_EQ(config.tokenizer, "byte");
  EXPECT_FALSE(config.path.given());
}

TEST(DataConfigTable, AStringIsOneFile) {
  const DataConfig config = read(R"({"path": "notes.txt"})");
  EXPECT_EQ(config.path.all, "notes.txt");
  EXPECT_EQ(config.path.train + config.path.valid + config.path.test, "");
}

TEST(DataConfigTable, AnObjectIsThreeFiles) {
  const DataConfig config = read(R"({"path": {"test": "c", "train": "a", "valid": "b"}, "corpus": "kjv"})");
  EXPECT_EQ(config.path.all, "");
  EXPECT_EQ(config.path.train, "a");
  EXPECT_EQ(config.path.valid, "b");
  EXPECT_EQ(config.path.test, "c");
}

TEST(DataConfigTable, RefusesAnIncompleteOrUnknownPath) {
  EXPECT_THAT(refusal(R"({"path": {"train": "a"}})"), AllOf(HasSubstr("/path"), HasSubstr("\"valid\""), HasSubstr("\"test\"")));
  EXPECT_THAT(refusal(R"({"path": {"train": "a", "valid": "b", "tset": "c"}})"), AllOf(HasSubstr("tset"), HasSubstr("\"test\"")));
  EXPECT_THAT(refusal(R"({"path": {"train": "a", "valid": "b", "test": 3}})"), HasSubstr("/path/test"));
  EXPECT_THAT(refusal(R"({"path": ""})"), HasSubstr("/path"));
  EXPECT_THAT(refusal(R"({"path": 7})"), HasSubstr("/path"));
}

TEST(DataConfigTable, RefusesWhatItDoesNotKnow) {
  EXPECT_THAT(refusal(R"({"corpus": "wikitext"})"), AllOf(HasSubstr("/corpus"), HasSubstr("austen"), HasSubstr("kjv")));
  EXPECT_THAT(refusal(R"({"tokenizer": "bpe"})"), AllOf(HasSubstr("/tokenizer"), HasSubstr("byte"), HasSubstr("char")));
  EXPECT_THAT(refusal(R"({"kind": "image"})"), HasSubstr("/kind"));
}

TEST(DataConfigTable, ResolvedConfigReadsBack) {
  const std::string no_task = R"(,"task":null,"train_lengths":null,"test_lengths":null,"examples":null,"depths":null})";
  for (const std::string text :
       {R"({"kind":"text","corpus":"austen","path":null,"tokenizer":"byte")",
        R"({"kind":"text","corpus":"kjv","path":"a.txt","tokenizer":"char")",
        R"({"kind":"text","corpus":"kjv","path":{"train":"a","valid":"b","test":"c"},"tokenizer":"char")"}) {
    EXPECT_EQ(dump_json_line(schema<DataConfig>().write(read(text + no_task))), text + no_task);
  }
}

TEST(DataConfigTable, JsonSchemaAllowsFileThreeFilesOrNull) {
  const Json path = schema<DataConfig>().describe()["properties"]["path"];
  ASSERT_EQ(path["anyOf"].size(), 3u);
  EXPECT_EQ(path["anyOf"][0]["type"], "string");
  EXPECT_EQ(path["anyOf"][1]["required"], Json({"train", "valid", "test"}));
  EXPECT_EQ(path["anyOf"][2]["type"], "null");
}

}  // namespace
}  // namespace posenc
