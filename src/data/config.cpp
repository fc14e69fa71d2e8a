#include "data/config.h"

#include <array>
#include <utility>

#include "data/corpora.h"

namespace posenc {
namespace {

using Paths = DataConfig::Paths;

constexpr std::array<std::pair<const char*, std::string Paths::*>, 3> kParts = {
    {{"train", &Paths::train}, {"valid", &Paths::valid}, {"test", &Paths::test}}};

bool read_path(const Json& j, std::string& out, const Reader& r) {
  if (!Codec<std::string>::read(j, out, {}, r)) return false;
  if (!out.empty()) return true;
  r.problem("\"\" is no file name; give one, or leave `path` out to use `corpus`");
  return false;
}

bool read_parts(const Json& j, Paths& out, const Reader& r) {
  const std::size_t before = r.problem_count();
  for (const auto& [key, value] : j.items()) {
    if (key != "train" && key != "valid" && key != "test") {
      schema_detail::unknown_key(j, key, {"train", "valid", "test"}, r);
    }
  }
  for (const auto& [key, member] : kParts) {
    if (j.contains(key)) {
      read_path(j[key], out.*member, r.at(key));
    } else {
      r.problem("missing key \"" + std::string(key) + "\": give train, valid and test, or one file name to split 90/5/5");
    }
  }
  return r.problem_count() == before;
}

}  // namespace

bool Codec<Paths>::read(const Json& j, Paths& out, const FieldRule&, const Reader& r) {
  Paths paths;
  if (!j.is_null() && !(j.is_object() ? read_parts(j, paths, r) : read_path(j, paths.all, r))) return false;
  out = std::move(paths);
  return true;
}

Json Codec<Paths>::write(const Paths& paths) {
  if (!paths.given()) return nullptr;
  if (!paths.all.empty()) return paths.all;
  return {{"train", paths.train}, {"valid", paths.valid}, {"test", paths.test}};
}

Json Codec<Paths>::describe(const FieldRule&) {
  const Json file = {{"type", "string"}, {"minLength", 1}};
  const Json files = {{"type", "object"},
                      {"properties", {{"train", file}, {"valid", file}, {"test", file}}},
                      {"required", {"train", "valid", "test"}},
                      {"additionalProperties", false}};
  const Json none = {{"type", "null"}};
  return {{"anyOf", Json::array({file, files, none})}};
}

template <>
const Schema<DataConfig>& schema<DataConfig>() {
  static const Schema<DataConfig> table =
      Schema<DataConfig>("data")
          .field("kind", &DataConfig::kind, "what to learn from")
          .choices({"text"})
          .field("corpus", &DataConfig::corpus,
                 "text known by name, installed by scripts/fetch_corpora; ignored when `path` is given")
          .choices(corpus_names())
          .field("path", &DataConfig::path,
                 "your own text instead of a corpus, relative to the working directory: one file, split 90/5/5 by position, or "
                 "{train, valid, test}; wins over `corpus`")
          .field("tokenizer", &DataConfig::tokenizer,
                 "byte: 256 tokens, any file; char: one token per Unicode code point of the text; ids: the text is token ids")
          .choices({"byte", "char", "ids"});
  return table;
}

}  // namespace posenc
