#include "data/corpus_import.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <cstddef>
#include <string>
#include <string_view>

#include "core/error.h"
#include "core/files.h"
#include "core/scratch.h"
#include "data/corpora.h"
#include "data/environment.h"

namespace posenc {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

std::string kjv_refusal(const std::string& verses) {
  return message_of<DataError>([&] { split_kjv(verses, "verses.txt"); });
}

TEST(CorpusImport, BibleIsSplitByBooksWithoutReferences) {
  EXPECT_THAT(
      split_kjv("Ge1:1 In the beginning\n"
                "Eze48:35 The LORD is there.\n"
                "Dan1:1 In the third year\n"
                "Acts1:1 The former: treatise\n"
                "Rom16:27 To God only wise\n"
                "1Cor1:1 Paul\n"
                "2Cor1:1 Paul again\n",
                "x"),
      ElementsAre(Pair("test", "The former: treatise\nTo God only wise\nPaul\n"), Pair("train", "In the beginning\nPaul again\n"),
                  Pair("valid", "The LORD is there.\nIn the third year\n")));
}

TEST(CorpusImport, TheLastVerseNeedsNoNewline) { EXPECT_EQ(split_kjv("Jn11:35 Jesus wept.", "x")["train"], "Jesus wept.\n"); }

// What `bible` prints besides verses when its input is piped rather than given as an argument.
TEST(CorpusImport, ALineThatIsNoVerseIsRefusedByNumber) {
  EXPECT_THAT(kjv_refusal("Ge1:1 In the beginning\nbible(KJV) [Gen1:1]> gen1:1-rev22:21\n"), HasSubstr("verses.txt:2:"));
  EXPECT_THAT(kjv_refusal("Hit '?' for help.\n"), HasSubstr("verses.txt:1:"));
  EXPECT_THAT(kjv_refusal("Ge1:1 a\n\nGe1:2 b\n"), HasSubstr("verses.txt:2:"));
  EXPECT_THAT(kjv_refusal("Ge1:1\n"), HasSubstr("verses.txt:1:"));
  EXPECT_THAT(kjv_refusal(":1 a\n"), HasSubstr("verses.txt:1:"));
  EXPECT_THAT(kjv_refusal("12:1 a\n"), HasSubstr("verses.txt:1:"));
}

TEST(CorpusImport, AnotherTextIsRefusedAndNothingIsWritten) {
  const Scratch scratch;
  const Environment data("POSENC_DATA", scratch / "data");
  write_file_atomic(scratch / "verses.txt", "Ge1:1 a\nDan1:1 b\nRom1:1 c\n");
  EXPECT_THAT(
      message_of<DataError>([&] { import_corpus("kjv", scratch / "verses.txt"); }),
      AllOf(HasSubstr("verses.txt: the train text has 2 bytes"), HasSubstr("3641727"), HasSubstr("Nothing was installed")));
  EXPECT_FALSE(fs::exists(scratch / "data"));
}

TEST(CorpusImport, APackageWithoutTheNovelsIsRefused) {
  EXPECT_THAT(message_of<DataError>([] { split_austen("", "Rdata.rdb"); }),
              AllOf(HasSubstr("Rdata.rdb"), HasSubstr("Emma"), HasSubstr("r-cran-janeaustenr 1.0.0")));
}

TEST(CorpusImport, AFolderWithoutThePackageNamesTheFileSought) {
  const Scratch scratch;
  EXPECT_THAT(message_of<IoError>([&] { import_corpus("austen", scratch.path()); }),
              HasSubstr((scratch / "usr/lib/R/site-library/janeaustenr/data/Rdata.rdb").string()));
}

TEST(CorpusImport, RefusesAnUnknownCorpus) { EXPECT_THROW(import_corpus("wikitext", "/nowhere"), ConfigError); }

std::string u32(std::size_t value) {
  return {static_cast<char>(value >> 24), static_cast<char>(value >> 16), static_cast<char>(value >> 8),
          static_cast<char>(value)};
}

/// `text` as an object of an R lazy-load database: its lines as a character vector, serialised (version 2) and compressed.
std::string as_object(std::string_view text) {
  std::string lines;
  std::size_t count = 0;
  for (; !text.empty(); ++count) {
    const std::size_t end = text.find('\n');
    lines += u32(9) + u32(end) + std::string(text.substr(0, end));
    text.remove_prefix(end + 1);
  }
  const std::string serialised = "X\n" + u32(2) + u32(0x40201) + u32(0x20300) + u32(16) + u32(count) + lines;
  uLongf size = compressBound(serialised.size());
  std::string stream(size, '\0');
  compress2(reinterpret_cast<Bytef*>(stream.data()), &size, reinterpret_cast<const Bytef*>(serialised.data()), serialised.size(),
            1);
  return u32(serialised.size()) + stream.substr(0, size);
}

// Takes the installed corpus apart into six novels, packs them as the package does, in its order, and imports that.
TEST(CorpusImport, ThePackageBecomesTheInstalledCorpus) {
  const Corpus& austen = find_corpus("austen");
  if (!fs::exists(austen.file(austen.parts[2]))) GTEST_SKIP() << "needs the corpus austen: scripts/fetch_corpora austen";
  const std::string train = read_part(austen, austen.parts[0]), valid = read_part(austen, austen.parts[1]),
                    test = read_part(austen, austen.parts[2]);
  const std::size_t emma = 883028, mansfield_park = 883280, pride_and_prejudice = 684768;  // bytes
  const std::string rdb = as_object(train.substr(0, emma)) + as_object(train.substr(emma, mansfield_park)) +
                          as_object(train.substr(emma + mansfield_park + pride_and_prejudice)) + as_object(valid) +
                          as_object(train.substr(emma + mansfield_park, pride_and_prejudice)) + as_object(test);
  const Scratch scratch;
  const fs::path folder = scratch / "usr/lib/R/site-library/janeaustenr/data";
  make_writable_directory(folder);
  write_file_atomic(folder / "Rdata.rdb", rdb);
  const Environment data("POSENC_DATA", scratch / "data");
  import_corpus("austen", scratch.path());
  EXPECT_TRUE(read_file(scratch / "data/corpora/austen/train.txt") == train);
  EXPECT_TRUE(read_file(scratch / "data/corpora/austen/valid.txt") == valid);
  EXPECT_TRUE(read_file(scratch / "data/corpora/austen/test.txt") == test);
}

}  // namespace
}  // namespace posenc
