#include "data/corpora.h"

#include <cstdlib>

#include "core/error.h"
#include "core/files.h"
#include "core/json.h"

namespace posenc {
namespace {

/// The value of an environment variable; empty when unset.
fs::path environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

const std::vector<Corpus>& corpora() {
  static const std::vector<Corpus> table = {
      {"austen",
       "six novels by Jane Austen (Debian r-cran-janeaustenr 1.0.0; public domain)",
       {{"train", 2884487, "a50bf2fee273d4b63c3838e9f35a84b376fa2387b58184ea60f4ae607d426994",
         "Emma, Mansfield Park, Pride and Prejudice, Northanger Abbey"},
        {"valid", 466854, "8061549557aebd2fd6e353d18d9197cb707029112bd52d4d8b174583a925848a", "Persuasion"},
        {"test", 673688, "105e1651fe93bed7130078578efd31e0c557d68667ba672ddc876f735b30fe09", "Sense and Sensibility"}}},
      {"kjv",
       "the King James Bible (Debian bible-kjv-text 4.38; public domain outside the United Kingdom)",
       {{"train", 3641727, "6de3e51f5da1adbf551efc201c6da81b0f887d30eea7ace88af2d438cec437e7",
         "the other 61 books, in their order"},
        {"valid", 267133, "09b3132156345b60940f3288dbaf4d27efffafb5504cbb35ef71763a86affd94", "Ezekiel, Daniel"},
        {"test", 228990, "d30773ffe067b0f87abf13ec77fa0532a4e37eb99e3b976e6e9f30a802e9213d", "Acts, Romans, 1 Corinthians"}}},
  };
  return table;
}

std::vector<std::string> corpus_names() {
  std::vector<std::string> names;
  for (const Corpus& corpus : corpora()) names.push_back(corpus.name);
  return names;
}

const Corpus& find_corpus(const std::string& name) {
  for (const Corpus& corpus : corpora()) {
    if (corpus.name == name) return corpus;
  }
  std::string known;
  for (const std::string& other : corpus_names()) known += (known.empty() ? "" : ", ") + other;
  throw ConfigError("unknown corpus \"" + name + "\" (one of " + known + ")");
}

fs::path Corpus::file(const CorpusPart& part) const { return data_directory() / "corpora" / name / (part.name + ".txt"); }

void require_part(const CorpusPart& part, std::string_view text, const std::string& where, const std::string& remedy) {
  const std::string digest = sha256(text);
  if (digest == part.sha256) return;
  throw DataError(where + " has " + std::to_string(text.size()) + " bytes and SHA-256 " + digest + "; the " + part.name +
                  " part (" + part.contents + ") has " + std::to_string(part.bytes) + " and " + part.sha256 + ". " + remedy);
}

std::string read_part(const Corpus& corpus, const CorpusPart& part) {
  const fs::path path = corpus.file(part);
  std::error_code ignored;  // anything but "not there" is for read_file to report
  if (fs::status(path, ignored).type() == fs::file_type::not_found) {
    throw ConfigError("the corpus " + corpus.name + " is not installed: " + path.string() +
                      " does not exist; run scripts/fetch_corpora " + corpus.name + ", or give your own text as data.path");
  }
  std::string text = read_file(path);
  require_part(part, text, path.string(), "Install it again: scripts/fetch_corpora " + corpus.name);
  return text;
}

fs::path data_directory() {
  if (const fs::path path = environment("POSENC_DATA"); !path.empty()) return path;
  if (const fs::path path = environment("XDG_DATA_HOME"); path.is_absolute()) return path / "posenc";
  if (const fs::path path = environment("HOME"); !path.empty()) return path / ".local/share/posenc";
  throw ConfigError("no place for data: set POSENC_DATA, XDG_DATA_HOME or HOME");
}

}  // namespace posenc
