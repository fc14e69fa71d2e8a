#include "core/sealed_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <string>
#include <thread>

#include "core/error.h"
#include "core/files.h"
#include "core/scratch.h"

namespace posenc {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// The payload "hello". Checksum: XXH3-128 of the 29 bytes before it by libxxhash's own XXH3_128bits, called from Python.
const std::string kHello = std::string("posenc-ckpt 0001") + std::string("\x05\0\0\0\0\0\0\0hello", 13) +
                           std::string("\x49\x11\x29\x9c\x42\xcd\xda\x67\x00\x6c\xcf\xf1\x63\x2b\x12\x0d", 16);

std::string refusal(const fs::path& path) {
  return message_of<DataError>([&] { read_sealed(path); });
}

std::string refusal_of_bytes(const std::string& bytes) {
  const Scratch scratch;
  std::ofstream(scratch / "c.ckpt", std::ios::binary) << bytes;
  const std::string message = refusal(scratch / "c.ckpt");
  EXPECT_THAT(message, HasSubstr((scratch / "c.ckpt").string()));
  return message;
}

TEST(SealedFile, HasTheDocumentedBytes) {
  const Scratch scratch;
  write_sealed(scratch / "c.ckpt", "hello");
  EXPECT_EQ(read_file(scratch / "c.ckpt"), kHello);
}

TEST(SealedFile, GivesBackEmptyAndBinaryPayloads) {
  const Scratch scratch;
  write_sealed(scratch / "c.ckpt", "");
  EXPECT_EQ(read_sealed(scratch / "c.ckpt"), "");
  const std::string binary("\0\xff\n\0", 4);
  write_sealed(scratch / "c.ckpt", binary);
  EXPECT_EQ(read_sealed(scratch / "c.ckpt"), binary);
}

TEST(SealedFile, MissingFileIsAnInputOutputError) {
  const Scratch scratch;
  EXPECT_THAT(message_of<IoError>([&] { read_sealed(scratch / "none.ckpt"); }), HasSubstr("none.ckpt"));
}

// Fault 88.
TEST(SealedFile, TellsDamagedFromWhatIsNoCheckpoint) {
  EXPECT_THAT(refusal_of_bytes(""), HasSubstr("damaged checkpoint (truncated)"));
  EXPECT_THAT(refusal_of_bytes("Once upon a time"), AllOf(HasSubstr("not a checkpoint"), Not(HasSubstr("damaged"))));
  EXPECT_THAT(refusal_of_bytes("PK\x03\x04"), HasSubstr("not a checkpoint"));
  EXPECT_THAT(refusal_of_bytes(kHello + "x"), HasSubstr("damaged checkpoint (checksum)"));
}

// Fault 88.
TEST(SealedFile, RefusesEveryShorterFileAsTruncated) {
  for (std::size_t size = 0; size < kHello.size(); ++size) {
    EXPECT_THAT(refusal_of_bytes(kHello.substr(0, size)), HasSubstr("damaged checkpoint (truncated)")) << size;
  }
}

// Fault 88.
TEST(SealedFile, RefusesEveryFlippedBit) {
  for (std::size_t bit = 0; bit < 8 * kHello.size(); ++bit) {
    std::string bytes = kHello;
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << bit % 8));
    const std::string message = refusal_of_bytes(bytes);
    const std::size_t byte = bit / 8;
    if (byte < 12 || byte >= 24) {
      EXPECT_THAT(message, HasSubstr(byte < 12 ? "not a checkpoint" : "damaged checkpoint (checksum)"));
    }
  }
}

TEST(SealedFile, RefusesALengthNearTheEndOfItsRange) {
  std::string bytes = kHello;
  bytes.replace(16, 8, 8, '\xff');
  EXPECT_THAT(refusal_of_bytes(bytes), HasSubstr("5 of 18446744073709551615 payload bytes"));
}

// Fault 101: version 0, current + 1, a string, none.
TEST(SealedFile, TellsOlderFromNewerVersions) {
  const auto with_version = [](const std::string& version) {
    return refusal_of_bytes(std::string(kHello).replace(12, 4, version));
  };
  EXPECT_THAT(with_version("0000"), AllOf(HasSubstr("older format"), HasSubstr("found version 0000"), HasSubstr("reads 0001")));
  EXPECT_THAT(with_version("0002"), AllOf(HasSubstr("newer format"), HasSubstr("found version 0002"), HasSubstr("reads 0001")));
  EXPECT_THAT(with_version("next"), HasSubstr("version is not a number"));
  EXPECT_THAT(with_version(""), HasSubstr("version is not a number"));
}

// Fault 85: SIGKILL at 30 moments of a process that saves without pause.
TEST(SealedFile, StaysWholeWhenTheSavingProcessIsKilled) {
  const Scratch scratch;
  const fs::path path = scratch / "c.ckpt";
  write_sealed(path, std::string(200'000, 'a'));
  for (int trial = 0; trial < 30; ++trial) {
    const pid_t child = ::fork();
    if (child == 0) {
      for (int save = 0;; ++save) write_sealed(path, std::string(200'000, "abcdefg"[save % 7]));
    }
    std::this_thread::sleep_for(std::chrono::microseconds(2000 + 370 * trial));
    ASSERT_EQ(::kill(child, SIGKILL), 0);
    ::waitpid(child, nullptr, 0);
    const std::string payload = read_sealed(path);
    ASSERT_EQ(payload, std::string(200'000, payload.at(0)));
  }
  for (const fs::directory_entry& entry : fs::directory_iterator(scratch.path())) {
    EXPECT_TRUE(entry.path() == path || entry.path().extension() == ".tmp") << "a reader could pick " << entry.path();
  }
}

// Fault 87: the disk takes the first save and not the second (as `ulimit -f` has it).
TEST(SealedFile, KeepsTheOldFileWhenTheDiskIsFull) {
  const Scratch scratch;
  const fs::path path = scratch / "c.ckpt";
  write_sealed(path, "first");
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit limit{4096, 4096};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    const std::string message = message_of<IoError>([&] { write_sealed(path, std::string(10'000, 'x')); });
    // 10040 = 24 bytes of header + payload + 16 of checksum.
    const bool clear = message.find(path.string()) != std::string::npos && message.find("File too large") != std::string::npos &&
                       message.find("10040 bytes needed") != std::string::npos;
    ::_exit(clear ? 74 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  ASSERT_TRUE(WIFEXITED(status)) << "ended by signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 74);
  EXPECT_EQ(read_sealed(path), "first");
  EXPECT_EQ(std::distance(fs::directory_iterator(scratch.path()), {}), 1) << "the temporary file is removed";
}

}  // namespace
}  // namespace posenc
