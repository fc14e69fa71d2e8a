#include "data/corpus_import.h"

#include <algorithm>
#include <array>
#include <utility>

#include "core/error.h"
#include "core/files.h"
#include "data/corpora.h"
#include "data/rdb.h"

namespace posenc {
namespace {

constexpr const char* kAustenFile = "usr/lib/R/site-library/janeaustenr/data/Rdata.rdb";

struct Novel {
  const char *title, *part, *sha256;
};

/// In the order in which a part holds them.
constexpr std::array<Novel, 6> kNovels = {{
    {"Emma", "train", "7c67b5985c6d0de1efaeb5d342d52cb82c38083c40e2295129e30e87ee690ebe"},
    {"Mansfield Park", "train", "98bc90519cdf4ef663ad7de2734bb529435ef24f7abbde6bb1a50898871dafe9"},
    {"Pride and Prejudice", "train", "dfc684d4f857fa938268f9ab9c5567b64bd0691251eca959644adeabe6287a4d"},
    {"Northanger Abbey", "train", "51f91bbe0517db8e65cff009b097ce0a1836124c4e0532ac19e6c0cad982abed"},
    {"Persuasion", "valid", "8061549557aebd2fd6e353d18d9197cb707029112bd52d4d8b174583a925848a"},
    {"Sense and Sensibility", "test", "105e1651fe93bed7130078578efd31e0c557d68667ba672ddc876f735b30fe09"},
}};

/// Books as `bible` abbreviates them; those not named here train.
const std::map<std::string_view, const char*> kBooks = {
    {"Eze", "valid"}, {"Dan", "valid"}, {"Acts", "test"}, {"Rom", "test"}, {"1Cor", "test"}};

/// "Ge" of "Ge1:1 In the beginning …", whose text starts after the first space; empty when there is no reference.
std::string_view book_of(std::string_view verse) {
  const std::string_view reference = verse.substr(0, verse.find(' '));
  const std::size_t colon = reference.find(':');
  if (reference.size() == verse.size() || colon == std::string_view::npos || colon == 0) return {};
  return reference.substr(0, reference.find_last_not_of("0123456789", colon - 1) + 1);
}

}  // namespace

std::map<std::string, std::string> split_austen(std::string_view rdb, const std::string& source) {
  std::map<std::string, std::string> by_digest, parts;
  for (std::string& text : read_rdb_texts(rdb, source)) {
    std::string digest = sha256(text);
    by_digest.emplace(std::move(digest), std::move(text));
  }
  for (const Novel& novel : kNovels) {
    const auto found = by_digest.find(novel.sha256);
    if (found == by_digest.end()) {
      throw DataError(source + ": no text has the SHA-256 of " + novel.title + " (" + novel.sha256 +
                      "); this is not r-cran-janeaustenr 1.0.0");
    }
    parts[novel.part] += found->second;
  }
  return parts;
}

std::map<std::string, std::string> split_kjv(std::string_view verses, const std::string& source) {
  std::map<std::string, std::string> parts;
  for (std::size_t number = 1; !verses.empty(); ++number) {
    const std::size_t end = std::min(verses.find('\n'), verses.size());
    const std::string_view verse = verses.substr(0, end);
    verses.remove_prefix(std::min(end + 1, verses.size()));
    const std::string_view book = book_of(verse);
    if (book.empty()) {
      throw DataError(source + ":" + std::to_string(number) + ": no verse reference such as \"1Cor13:13 \" opens this line");
    }
    const auto held_out = kBooks.find(book);
    parts[held_out == kBooks.end() ? "train" : held_out->second].append(verse.substr(verse.find(' ') + 1)) += '\n';
  }
  return parts;
}

void import_corpus(const std::string& name, const fs::path& source) {
  const Corpus& corpus = find_corpus(name);
  const fs::path file = name == "austen" ? source / kAustenFile : source;
  const std::string bytes = read_file(file);
  const auto split = name == "austen" ? split_austen : split_kjv;
  std::map<std::string, std::string> parts = split(bytes, file.string());
  for (const CorpusPart& part : corpus.parts) {
    require_part(part, parts[part.name], file.string() + ": the " + part.name + " text",
                 "Another version of the package? Nothing was installed.");
  }
  for (const CorpusPart& part : corpus.parts) {
    make_writable_directory(corpus.file(part).parent_path());
    write_file_atomic(corpus.file(part), parts[part.name]);
  }
}

}  // namespace posenc
