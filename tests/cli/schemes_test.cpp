// `posenc schemes` and `posenc schema`: nothing registered is left out, and the schema says what the parser does.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <regex>
#include <string>
#include <vector>

#include "cli/json_schema.h"
#include "cli/process.h"
#include "cli/runs.h"

namespace posenc {
namespace {

namespace fs = std::filesystem;
using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

const fs::path kSource = POSENC_SOURCE_DIR;

std::vector<std::string> all_matches(const std::string& text, const std::string& pattern) {
  std::vector<std::string> found;
  const std::regex regex(pattern);
  for (std::sregex_iterator it(text.begin(), text.end(), regex), end; it != end; ++it) found.push_back((*it)[1]);
  return found;
}

/// Names as list.def has them, read as text.
std::vector<std::string> listed(const std::string& folder, const std::string& macro) {
  return all_matches(read_file(kSource / "src" / folder / "list.def"), "\n" + macro + "\\((\\w+)\\)");
}

const Json& listed_as_json() {
  static const Json all = Json::parse(run({{"schemes", "--format", "json"}}).out);
  return all;
}

std::vector<std::string> aliases_of(const std::string& section, const std::string& name) {
  for (const Json& one : listed_as_json().at(section)) {
    if (one.at("name") == name) return one.at("aliases").get<std::vector<std::string>>();
  }
  return {};
}

struct Kind {
  const char *folder, *macro, *section;
};
constexpr Kind kKinds[] = {{"schemes", "POSENC_SCHEME", "schemes"},
                           {"extend", "POSENC_EXTENSION", "extensions"},
                           {"data/tasks", "POSENC_TASK", "tasks"}};

TEST(Schemes, ListsEverySchemeExtensionAndTaskWithItsAliasesInEveryFormat) {
  const Outcome text = run({{"schemes"}}), md = run({{"schemes", "--format", "md"}}),
                json = run({{"schemes", "--format", "json"}});
  for (const Outcome* outcome : {&text, &md, &json}) {
    EXPECT_EQ(outcome->code, 0);
    EXPECT_THAT(outcome->err, IsEmpty());
  }
  const Json all = Json::parse(json.out);
  std::size_t rows = 0, aliases = 0;
  for (const auto& [folder, macro, section] : kKinds) {
    std::vector<std::string> names;
    for (const Json& one : all.at(section)) {
      names.push_back(one.at("name"));
      EXPECT_FALSE(one.at("title").get<std::string>().empty() || one.at("paper").get<std::string>().empty()) << names.back();
    }
    ASSERT_THAT(names, ElementsAreArray(listed(folder, macro)));
    for (const std::string& name : names) {
      ++rows;
      EXPECT_THAT(lines_of(text.out), Contains(::testing::StartsWith(name + " "))) << name;
      EXPECT_THAT(lines_of(md.out), Contains(::testing::StartsWith("| " + name + " |"))) << name;
      for (const std::string& alias : aliases_of(section, name)) {
        ++aliases;
        EXPECT_THAT(text.out, HasSubstr(alias));
        EXPECT_THAT(md.out, HasSubstr(alias));
      }
    }
  }
  EXPECT_GE(aliases, 30u);
  for (const char* axis : {"window", "chunk", "temperature", "sinks", "sampler", "layers"}) {
    ++rows;
    EXPECT_THAT(lines_of(md.out), Contains(::testing::StartsWith(std::string("| ") + axis + " | axis |")));
  }
  EXPECT_EQ(lines_of(text.out).size(), rows + 1);
  EXPECT_EQ(lines_of(md.out).size(), rows + 2);
}

TEST(Schemes, TheReadmeHasTheirTable) {
  EXPECT_THAT(read_file(kSource / "README.md"), HasSubstr(run({{"schemes", "--format", "md"}}).out));
}

TEST(Schemes, EachHasAConfigOfItsOwn) {
  for (const std::string& name : listed("schemes", "POSENC_SCHEME")) {
    const fs::path config = kSource / "configs" / (name + ".json");
    ASSERT_TRUE(fs::exists(config)) << config;
    EXPECT_EQ(read_json(config).at("model").at("position"), name);
  }
}

Json schema_output() {
  const Outcome done = run({{"schema"}});
  EXPECT_EQ(done.code, 0);
  return Json::parse(done.out);
}

TEST(JsonSchema, AcceptsTheConfigsThatComeWithPosenc) {
  const Json schema = schema_output();
  EXPECT_EQ(schema.at("$schema"), "https://json-schema.org/draft/2020-12/schema");
  std::vector<fs::path> files;
  for (const char* folder : {"configs", "experiments"}) {
    for (const auto& entry : fs::recursive_directory_iterator(kSource / folder)) {
      const std::string name = entry.path().filename();
      if (std::string(folder) == "configs" ? entry.path().extension() == ".json" : name == "sweep.json")
        files.push_back(entry.path());
    }
  }
  ASSERT_GE(files.size(), 7u);
  for (const fs::path& file : files) EXPECT_THAT(schema_violations(schema, read_json(file)), IsEmpty()) << file;
}

// The schema refuses what the parser refuses: editors must not call a file good that posenc will not take.
TEST(JsonSchema, RefusesWhatTheParserRefuses) {
  const Json schema = schema_output();
  const Json good = tiny_config("text.txt");
  ASSERT_THAT(schema_violations(schema, good), IsEmpty());
  const Scratch scratch;
  for (const char* patch : {R"({"trian": {}})",
                            R"({"train": {"learning_rat": 1}})",
                            R"({"train": {"steps": 1.5}})",
                            R"({"train": {"steps": "3"}})",
                            R"({"train": {"eps": 0}})",
                            R"({"train": {"betas": [0.9, 2]}})",
                            R"({"model": {"layers": 0}})",
                            R"({"model": {"position": "rop"}})",
                            R"({"model": {"position": {"scheme": "rope", "bas": 3}}})",
                            R"({"model": {"position": {"scheme": "alibi", "base": 3}}})",
                            R"({"eval": {"lengths": [0]}})",
                            R"({"eval": {"protocols": ["fixed"]}})",
                            R"({"eval": {"extensions": [{"method": "yarn?"}]}})",
                            R"({"data": {"path": ""}})",
                            R"({"data": {"kind": "tsk"}})",
                            R"({"data": {"task": "coppy"}})",
                            R"({"data": {"task": {"task": "copy", "frm": "same"}}})",
                            R"({"data": {"train_lengths": [0, 5]}})",
                            R"({"data": {"path": {"train": "a"}}})",
                            R"({"runtime": {"dtype": "float8"}})",
                            R"({"seed": -1})"}) {
    Json config = good;
    config.merge_patch(Json::parse(patch));
    EXPECT_THAT(schema_violations(schema, config), Not(IsEmpty())) << patch;
    const std::string file = write_config(scratch / "c.json", config);
    EXPECT_EQ(run({{"train", "--config", file, "--out", scratch / "run"}}).code, 2) << patch;
  }
}

TEST(JsonSchema, HasEverySchemeUnderEveryName) {
  const Json schema = schema_output();
  for (const std::string& name : listed("schemes", "POSENC_SCHEME")) {
    std::vector<std::string> spellings = aliases_of("schemes", name);
    spellings.push_back(name);
    for (const std::string& spelling : spellings) {
      Json config = tiny_config("text.txt");
      config["model"]["position"] = spelling;
      EXPECT_THAT(schema_violations(schema, config), IsEmpty()) << spelling;
      config["model"]["position"] = {{"scheme", spelling}};
      EXPECT_THAT(schema_violations(schema, config), IsEmpty()) << spelling;
    }
  }
}

/// Every key of every table is described, with its default.
void expect_described(const Json& schema, const std::string& at) {
  const Json properties = schema.value("properties", Json::object());
  for (const auto& [key, rule] : properties.items()) {
    const std::string here = at + "/" + key;
    const bool explained = rule.contains("description") || key == "$schema" || at.find("/path") != std::string::npos;
    EXPECT_TRUE(explained) << here;
    expect_described(rule, here);
  }
}

TEST(JsonSchema, DescribesEveryKeyAndAllowsNoOther) {
  const Json schema = schema_output();
  ASSERT_EQ(schema.at("anyOf").size(), 2u);  // an experiment, or a sweep
  for (const Json& one : schema.at("anyOf")) {
    expect_described(one, "");
    EXPECT_EQ(one.at("additionalProperties"), false);
  }
}

}  // namespace
}  // namespace posenc
