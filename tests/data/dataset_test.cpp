#include "data/dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <memory>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/files.h"
#include "core/scratch.h"

namespace posenc {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class DatasetTest : public ::testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& bytes) {
    write_file_atomic(scratch_ / name, bytes);
    return scratch_ / name;
  }
  DataConfig one(const std::string& path, const std::string& tokenizer = "byte") {
    DataConfig config;
    config.path.all = path;
    config.tokenizer = tokenizer;
    return config;
  }
  DataConfig three(const std::string& train, const std::string& valid, const std::string& test,
                   const std::string& tokenizer = "byte") {
    DataConfig config = one("", tokenizer);
    config.path.train = write("train.txt", train);
    config.path.valid = write("valid.txt", valid);
    config.path.test = write("test.txt", test);
    return config;
  }

  Scratch scratch_;
};

/// Root reads everything: gives root up for the length of a test of permissions.
class WithoutRoot {
 public:
  WithoutRoot() : before_(::geteuid()) { EXPECT_EQ(before_ == 0 ? ::seteuid(65534) : 0, 0); }
  ~WithoutRoot() { EXPECT_EQ(before_ == 0 ? ::seteuid(0) : 0, 0); }

 private:
  uid_t before_;
};

/// 200 bytes; byte i is i.
std::string counting_bytes() {
  std::string bytes(200, '\0');
  std::iota(bytes.begin(), bytes.end(), '\0');
  return bytes;
}

// Fault 75: four faults, four messages, each with the path.
TEST_F(DatasetTest, EmptyMissingDirectoryAndUnreadableAreToldApart) {
  const std::string empty = write("empty.txt", ""), missing = scratch_ / "missing.txt", locked = write("locked.txt", "text");
  ::chmod(scratch_.path().c_str(), 0755);
  ::chmod(locked.c_str(), 0);
  EXPECT_THAT(message_of<DataError>([&] { load_dataset(one(empty)); }), AllOf(HasSubstr(empty), HasSubstr("is empty")));
  EXPECT_THAT(message_of<ConfigError>([&] { load_dataset(one(missing)); }),
              AllOf(HasSubstr(missing), HasSubstr("does not exist")));
  EXPECT_THAT(message_of<ConfigError>([&] { load_dataset(one(scratch_.path())); }),
              AllOf(HasSubstr(scratch_.path()), HasSubstr("is a directory")));
  const WithoutRoot guard;
  EXPECT_THAT(message_of<IoError>([&] { load_dataset(one(locked)); }), AllOf(HasSubstr(locked), HasSubstr("Permission denied")));
}

TEST_F(DatasetTest, ThreePathsNameTheOneThatIsMissing) {
  DataConfig config = three("a", "b", "c");
  config.path.valid += ".gone";
  EXPECT_THAT(message_of<ConfigError>([&] { load_dataset(config); }), HasSubstr("valid.txt.gone does not exist"));
}

TEST_F(DatasetTest, OneFileIsCutAt90And95Percent) {
  const std::string path = write("count.bin", counting_bytes());
  const Dataset d = load_dataset(one(path));
  EXPECT_EQ(d.train.tokens.size(), 180u);
  EXPECT_EQ(d.train.bytes, 180);
  EXPECT_THAT(d.valid.tokens, ElementsAre(180, 181, 182, 183, 184, 185, 186, 187, 188, 189));
  EXPECT_THAT(d.test.tokens, ElementsAre(190, 191, 192, 193, 194, 195, 196, 197, 198, 199));
  EXPECT_EQ(d.train.source, path + "[0, 180)");
  EXPECT_EQ(d.valid.source, path + "[180, 190)");
  EXPECT_EQ(d.test.source, path + "[190, 200)");
}

// Fault 79: token i stands at i, so the tokens a window reads are the positions it covers.
TEST_F(DatasetTest, TrainingWindowsStayClearOfValidation) {
  const Dataset d = load_dataset(one(write("count.bin", counting_bytes())));
  std::set<std::int32_t> trained;
  for (std::int64_t start : batch_starts(1, 0, 176, 180, 4)) {  // every window of the epoch, with its last target
    trained.insert(d.train.tokens.begin() + start, d.train.tokens.begin() + start + 5);
  }
  EXPECT_EQ(trained.size(), 180u);
  EXPECT_EQ(*trained.begin(), 0);
  EXPECT_EQ(*trained.rbegin(), 179);
  EXPECT_EQ(d.valid.tokens.front(), 180);
  EXPECT_EQ(d.test.tokens.front(), 190);
}

TEST_F(DatasetTest, AFileTooShortToSplitIsRefused) {
  EXPECT_THAT(message_of<DataError>([&] { load_dataset(one(write("short.txt", "0123456789"))); }),
              AllOf(HasSubstr("short.txt"), HasSubstr("10 bytes")));
  EXPECT_EQ(load_dataset(one(write("enough.txt", "0123456789abcdefghij"))).valid.tokens.size(), 1u);
}

TEST_F(DatasetTest, CharsAreNotCutInTwo) {
  std::string text = "a";  // then 20 two-byte characters: of 41 bytes, the cuts at 36 and 38 fall inside one
  for (int i = 0; i < 20; ++i) text += "é";
  const std::string path = write("accents.txt", text);
  const Dataset d = load_dataset(one(path, "char"));
  EXPECT_EQ(d.train.tokens.size(), 19u);
  EXPECT_THAT(d.valid.tokens, ElementsAre(1));
  EXPECT_THAT(d.test.tokens, ElementsAre(1));
  EXPECT_EQ(d.valid.source, path + "[37, 39)");
  EXPECT_EQ(d.valid.bytes, 2);
  EXPECT_EQ(load_dataset(one(path)).train.tokens.size(), 36u);
}

TEST_F(DatasetTest, CharsHaveOneTableForAllParts) {
  const Dataset d = load_dataset(three("ac", "cb", "d", "char"));
  EXPECT_EQ(d.tokenizer->vocab_size(), 4);
  EXPECT_THAT(d.train.tokens, ElementsAre(0, 2));
  EXPECT_THAT(d.valid.tokens, ElementsAre(2, 1));
  EXPECT_THAT(d.test.tokens, ElementsAre(3));
}

// Fault 81.
TEST_F(DatasetTest, InvalidUtf8NamesItsFileAndOffset) {
  const DataConfig config = three("abc", "d\xFF", "e", "char");
  EXPECT_THAT(message_of<DataError>([&] { load_dataset(config); }), AllOf(HasSubstr(config.path.valid), HasSubstr("offset 1 ")));
  EXPECT_THAT(load_dataset(three("abc", "d\xFF", "e")).valid.tokens, ElementsAre(100, 255));
}

// Fault 84.
TEST_F(DatasetTest, LineEndsAreKept) {
  std::string lf, crlf;
  for (int i = 0; i < 100; ++i) lf += "a line\n", crlf += "a line\r\n";
  const Dataset unix_text = load_dataset(three(lf, "v", "t")), dos_text = load_dataset(three(crlf, "v", "t"));
  EXPECT_EQ(unix_text.train.tokens.size(), 700u);
  EXPECT_EQ(dos_text.train.tokens.size(), 800u);
  EXPECT_NE(unix_text.train.sha256, dos_text.train.sha256);
}

// FIPS 180-2, appendix B.1.
TEST_F(DatasetTest, SplitsCarryTheDigestOfTheirText) {
  EXPECT_EQ(load_dataset(three("abc", "v", "t")).train.sha256,
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST_F(DatasetTest, TheSameTextTwiceIsRefused) {
  EXPECT_THAT(message_of<DataError>([&] { load_dataset(three("same", "same", "other")); }),
              AllOf(HasSubstr("train.txt"), HasSubstr("valid.txt"), HasSubstr("are the same")));
  EXPECT_THAT(message_of<DataError>([&] { load_dataset(three("same", "other", "same")); }), HasSubstr("test.txt"));
  EXPECT_THAT(message_of<DataError>([&] { load_dataset(three("other", "same", "same")); }), HasSubstr("test.txt"));
}

TEST_F(DatasetTest, ARunsTokenizerServesOtherText) {
  const std::shared_ptr<Tokenizer> trained = make_tokenizer("char", "xyz é", "run");
  const Dataset d = load_dataset(three("zz", "é", "y"), trained);
  EXPECT_THAT(d.train.tokens, ElementsAre(3, 3));
  EXPECT_THAT(d.valid.tokens, ElementsAre(4));
  EXPECT_THAT(message_of<DataError>([&] { load_dataset(three("zz", "w", "y"), trained); }), HasSubstr("valid.txt"));
}

TEST_F(DatasetTest, SplitsAreFoundByName) {
  const Dataset d = load_dataset(three("a", "b", "c"));
  EXPECT_EQ(&d.split("valid"), &d.valid);
  EXPECT_THROW(d.split("dev"), ConfigError);
}

// Fault 58.
TEST_F(DatasetTest, OneByteHasNoTargetAndTwoHaveOne) {
  const Dataset one_byte = load_dataset(three("text", "x", "y"));
  EXPECT_THAT(message_of<ConfigError>([&] { require_window(one_byte.valid, 1); }),
              AllOf(HasSubstr("valid"), HasSubstr("valid.txt"), HasSubstr("0 targets")));
  EXPECT_NO_THROW(require_window(load_dataset(three("text", "xy", "y")).valid, 1));
}

TEST_F(DatasetTest, AWindowNeedsTheTokenAfterIt) {
  const Dataset d = load_dataset(three("12345", "v", "t"));
  EXPECT_NO_THROW(require_window(d.train, 4));
  EXPECT_THAT(message_of<ConfigError>([&] { require_window(d.train, 5); }),
              AllOf(HasSubstr("train"), HasSubstr("5 tokens"), HasSubstr("needs 6 tokens")));
}

}  // namespace
}  // namespace posenc
