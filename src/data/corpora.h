#pragma once
// The corpora known by name: what text each part holds and the SHA-256 it must have. `scripts/fetch_corpora` installs them under
// data_directory()/corpora/<name>/{train,valid,test}.txt. Parts are whole documents, so no novel or book stands in two of them.

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace posenc {

struct CorpusPart {
  std::string name;  ///< "train", "valid", "test"
  std::int64_t bytes;
  std::string sha256;
  std::string contents;  ///< for people: "Persuasion"
};

struct Corpus {
  std::string name;
  std::string title;
  std::vector<CorpusPart> parts;  ///< train, valid, test

  /// Where part `part` is installed.
  std::filesystem::path file(const CorpusPart& part) const;
};

const std::vector<Corpus>& corpora();
std::vector<std::string> corpus_names();

/// ConfigError, naming the known ones, when there is no such corpus.
const Corpus& find_corpus(const std::string& name);

/// DataError saying what differs when `text` is not what `part` holds; `where` names the text and `remedy` ends the message.
void require_part(const CorpusPart& part, std::string_view text, const std::string& where, const std::string& remedy);

/// The text of an installed part, verified. ConfigError naming the path and `scripts/fetch_corpora` when it is not installed.
std::string read_part(const Corpus& corpus, const CorpusPart& part);

/// $POSENC_DATA, else $XDG_DATA_HOME/posenc, else ~/.local/share/posenc. Empty variables count as unset, and so does a relative
/// XDG_DATA_HOME (XDG Base Directory Specification).
std::filesystem::path data_directory();

}  // namespace posenc
