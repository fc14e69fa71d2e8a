#include "data/corpora.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "core/error.h"
#include "core/files.h"
#include "core/scratch.h"
#include "data/environment.h"

namespace posenc {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Corpora, AreKnownByName) {
  EXPECT_THAT(corpus_names(), ElementsAre("austen", "kjv"));
  EXPECT_THAT(message_of<ConfigError>([] { find_corpus("wikitext"); }), AllOf(HasSubstr("wikitext"), HasSubstr("austen, kjv")));
}

TEST(Corpora, PartsAreTrainValidTestOfKnownSize) {
  for (const Corpus& corpus : corpora()) {
    ASSERT_EQ(corpus.parts.size(), 3u) << corpus.name;
    EXPECT_EQ(corpus.parts[0].name + corpus.parts[1].name + corpus.parts[2].name, "trainvalidtest") << corpus.name;
    for (const CorpusPart& part : corpus.parts) EXPECT_EQ(part.sha256.size(), 64u) << corpus.name << part.name;
  }
}

TEST(Corpora, OneThatIsNotInstalledNamesPathAndCommand) {
  const Scratch scratch;
  const Environment data("POSENC_DATA", scratch.path());
  const Corpus& kjv = find_corpus("kjv");
  EXPECT_THAT(message_of<ConfigError>([&] { read_part(kjv, kjv.parts[1]); }),
              AllOf(HasSubstr((scratch / "corpora/kjv/valid.txt").string()), HasSubstr("scripts/fetch_corpora kjv")));
}

TEST(Corpora, OneThatWasAlteredIsRefused) {
  const Scratch scratch;
  const Environment data("POSENC_DATA", scratch.path());
  const Corpus& austen = find_corpus("austen");
  make_writable_directory(scratch / "corpora/austen");
  write_file_atomic(scratch / "corpora/austen/valid.txt", "abc");
  EXPECT_THAT(message_of<DataError>([&] { read_part(austen, austen.parts[1]); }),
              AllOf(HasSubstr("austen/valid.txt has 3 bytes"), HasSubstr("Persuasion"), HasSubstr("466854"),
                    HasSubstr("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),  // of "abc", FIPS 180-2 B.1
                    HasSubstr("scripts/fetch_corpora austen")));
}

TEST(Corpora, DataDirectoryFollowsTheEnvironment) {
  const Environment home("HOME", "/home/me");
  const Environment unset_data("POSENC_DATA", std::nullopt), unset_xdg("XDG_DATA_HOME", "");
  EXPECT_EQ(data_directory(), "/home/me/.local/share/posenc");
  const Environment relative("XDG_DATA_HOME", "share");  // to be ignored, says the specification
  EXPECT_EQ(data_directory(), "/home/me/.local/share/posenc");
  const Environment xdg("XDG_DATA_HOME", "/srv/share");
  EXPECT_EQ(data_directory(), "/srv/share/posenc");
  const Environment data("POSENC_DATA", "/srv/posenc");
  EXPECT_EQ(data_directory(), "/srv/posenc");
}

TEST(Corpora, NoHomeIsAnErrorThatNamesTheVariables) {
  const Environment home("HOME", std::nullopt), data("POSENC_DATA", std::nullopt), xdg("XDG_DATA_HOME", std::nullopt);
  EXPECT_THAT(message_of<ConfigError>([] { data_directory(); }), HasSubstr("POSENC_DATA"));
}

}  // namespace
}  // namespace posenc
