#include "core/files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <regex>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/scratch.h"

namespace posenc {
namespace {

using testing::AllOf;
using testing::HasSubstr;

mode_t mode_of(const fs::path& path) {
  struct stat status {};
  EXPECT_EQ(::stat(path.c_str(), &status), 0) << path;
  return status.st_mode & 07777;
}

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename().string());
  return names;
}

TEST(Files, ReadsWhatWasWrittenAndLeavesNothingElse) {
  const Scratch scratch;
  const std::string bytes("a\0\n\xff", 4);
  write_file_atomic(scratch / "f", "a longer text that is replaced");
  write_file_atomic(scratch / "f", bytes);
  EXPECT_EQ(read_file(scratch / "f"), bytes);
  EXPECT_EQ(names_in(scratch.path()), std::vector<std::string>{"f"});
}

TEST(Files, ReadsFilesThatStateNoSize) { EXPECT_THAT(read_file("/proc/self/status"), HasSubstr("\nPid:\t")); }

TEST(Files, WritesANameAsLongAsNamesCanBe) {
  const Scratch scratch;
  const std::string name(255, 'n');  // NAME_MAX
  write_file_atomic(scratch / name, "x");
  EXPECT_EQ(read_file(scratch / name), "x");
}

TEST(Files, ErrorsNamePathAndCause) {
  const Scratch scratch;
  EXPECT_THAT(message_of<IoError>([&] { read_file(scratch / "none"); }),
              AllOf(HasSubstr((scratch / "none").string()), HasSubstr("No such file or directory")));
  EXPECT_THAT(message_of<IoError>([&] { read_file(scratch.path()); }),
              AllOf(HasSubstr(scratch.path().string()), HasSubstr("is a directory")));
  EXPECT_THAT(message_of<IoError>([&] { write_file_atomic(scratch / "no/f", "x"); }),
              AllOf(HasSubstr((scratch / "no/f").string()), HasSubstr("No such file or directory")));
  EXPECT_THAT(message_of<IoError>([&] { write_file_atomic(scratch.path(), "x"); }),
              AllOf(HasSubstr(scratch.path().string()), HasSubstr("Is a directory")));
}

TEST(Files, NeverReplacesADevice) {
  EXPECT_THAT(message_of<IoError>([] { write_file_atomic("/dev/null", "x"); }), HasSubstr("/dev/null: not a regular file"));
}

// Fault 134.
TEST(Files, NewFilesHaveThePlainModeAndOldOnesKeepTheirs) {
  const Scratch scratch;
  const mode_t before = ::umask(022);
  write_file_atomic(scratch / "report", "1");
  EXPECT_EQ(mode_of(scratch / "report"), 0644u);
  write_file_atomic(scratch / "report", "2");
  EXPECT_EQ(mode_of(scratch / "report"), 0644u);
  ::chmod((scratch / "report").c_str(), 0664);
  write_file_atomic(scratch / "report", "3");
  EXPECT_EQ(mode_of(scratch / "report"), 0664u);
  ::umask(before);
}

// Fault 134: a link stays a link, and its target is replaced, with the target's mode.
TEST(Files, FollowsASymbolicLink) {
  const Scratch scratch;
  fs::create_directory(scratch / "elsewhere");
  write_file_atomic(scratch / "elsewhere/report", "old");
  ::chmod((scratch / "elsewhere/report").c_str(), 0600);
  fs::create_symlink("elsewhere/report", scratch / "link");
  fs::create_symlink("link", scratch / "link2");
  write_file_atomic(scratch / "link2", "new");
  EXPECT_TRUE(fs::is_symlink(scratch / "link2"));
  EXPECT_TRUE(fs::is_symlink(scratch / "link"));
  EXPECT_EQ(read_file(scratch / "elsewhere/report"), "new");
  EXPECT_EQ(mode_of(scratch / "elsewhere/report"), 0600u);
}

TEST(Files, CreatesTheTargetOfADanglingLinkAndRefusesACircle) {
  const Scratch scratch;
  fs::create_symlink("later", scratch / "link");
  write_file_atomic(scratch / "link", "x");
  EXPECT_EQ(read_file(scratch / "later"), "x");
  fs::create_symlink("circle", scratch / "circle");
  EXPECT_THAT(message_of<IoError>([&] { write_file_atomic(scratch / "circle", "x"); }), HasSubstr("circle: Too many levels"));
}

// Fault 86: the system calls of one save, seen from outside. This test runs itself under strace, told by a variable what to save.
TEST(Files, SyncsDataBeforeTheRenameAndTheFolderAfter) {
  if (const char* target = std::getenv("POSENC_TEST_SAVE")) return write_file_atomic(target, "bytes");
  if (std::system("strace -o /dev/null true > /dev/null 2>&1") != 0) {
    GTEST_SKIP() << "strace is not installed or may not trace here: the order of fsync and rename was NOT checked";
  }
  const Scratch scratch;
  const std::string self = fs::read_symlink("/proc/self/exe").string();
  const std::string command = "POSENC_TEST_SAVE=" + (scratch / "f").string() + " strace -f -o " + (scratch / "trace").string() +
                              " -e trace=openat,fsync,?rename,?renameat,?renameat2 " + self +
                              " --gtest_filter=Files.SyncsDataBeforeTheRenameAndTheFolderAfter > /dev/null";
  ASSERT_EQ(std::system(command.c_str()), 0);
  const std::string trace = read_file(scratch / "trace");

  const std::regex save(
      "\"[^\"]*/\\.posenc-[^\"]*\\.tmp\", [A-Z_|]*O_EXCL[A-Z_|]*, 0666\\) = (\\d+)\\n"
      "\\d+ +fsync\\((\\d+)\\) += 0\\n"
      "\\d+ +rename[^\\n]*\\.tmp\"[^\\n]*/f\"\\) += 0\\n"
      "\\d+ +openat[^\\n]*O_DIRECTORY[^\\n]*\\) = (\\d+)\\n"
      "\\d+ +fsync\\((\\d+)\\) += 0\\n");
  std::smatch calls;
  ASSERT_TRUE(std::regex_search(trace, calls, save)) << trace;
  EXPECT_EQ(calls[1], calls[2]) << "the file that was written is synced";
  EXPECT_EQ(calls[3], calls[4]) << "the folder is synced";
}

// Fault 87: a device that is always full.
TEST(Files, AFullDiskNamesPathAndBytesNeeded) {
  if (!fs::exists("/dev/full")) GTEST_SKIP() << "no /dev/full here";
  AppendFile log("/dev/full");
  EXPECT_THAT(message_of<IoError>([&] { log.line("123456789"); }),
              AllOf(HasSubstr("/dev/full"), HasSubstr("No space left on device"), HasSubstr("10 bytes needed")));
}

TEST(Files, MakesAFolderAndProvesThatItCanBeWrittenTo) {
  const Scratch scratch;
  make_writable_directory(scratch / "a/b/c");
  make_writable_directory(scratch / "a/b/c");
  EXPECT_TRUE(fs::is_directory(scratch / "a/b/c"));
  EXPECT_TRUE(fs::is_empty(scratch / "a/b/c")) << "the probe is removed";
  write_file_atomic(scratch / "file", "x");
  EXPECT_THAT(message_of<IoError>([&] { make_writable_directory(scratch / "file"); }), HasSubstr("file: Not a directory"));
  EXPECT_THAT(message_of<IoError>([&] { make_writable_directory(scratch / "file/sub"); }), HasSubstr("Not a directory"));
  EXPECT_THAT(message_of<IoError>([] { make_writable_directory("/proc/self"); }), HasSubstr("/proc/self"));
}

TEST(Files, AppendsWholeLines) {
  const Scratch scratch;
  { AppendFile(scratch / "log").line("one"); }
  AppendFile log(scratch / "log");
  log.line("two");
  log.sync();
  EXPECT_EQ(read_file(scratch / "log"), "one\ntwo\n");
}

TEST(Files, CutsTheHalfLineOfAKilledWriter) {
  const Scratch scratch;
  write_file_atomic(scratch / "log", "{\"step\":1}\n{\"st");
  AppendFile(scratch / "log").line("{\"step\":2}");
  EXPECT_EQ(read_file(scratch / "log"), "{\"step\":1}\n{\"step\":2}\n");
  write_file_atomic(scratch / "log", "{\"st");
  AppendFile(scratch / "log").line("{\"step\":1}");
  EXPECT_EQ(read_file(scratch / "log"), "{\"step\":1}\n");
}

// FIPS 180-2, appendix B.1 and B.2, and the well-known hash of nothing.
TEST(Files, Sha256MatchesTheStandard) {
  EXPECT_EQ(sha256(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

/// A child that waits for `start` to close, takes the lock, says how it went on its own pipe, and keeps it until `stop` closes.
struct Contender {
  pid_t pid;
  int report;
};

Contender start_contender(const fs::path& folder, const std::array<int, 2>& start, const std::array<int, 2>& stop) {
  std::array<int, 2> report;
  EXPECT_EQ(::pipe(report.data()), 0);
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::close(start[1]), ::close(stop[1]), ::close(report[0]);
    char none;
    const auto say = [&](const std::string& text) { return ::write(report[1], text.data(), text.size()); };
    if (::read(start[0], &none, 1) != 0) ::_exit(1);
    try {
      const DirectoryLock lock(folder);
      say("won");
      ::close(report[1]);
      ::_exit(static_cast<int>(::read(stop[0], &none, 1)));
    } catch (const ConfigError& error) {
      say(error.what());
    }
    ::_exit(0);
  }
  ::close(report[1]);
  return {pid, report[0]};
}

std::string read_to_end(int fd) {
  std::string text;
  char part[256];
  for (ssize_t n; (n = ::read(fd, part, sizeof part)) > 0;) text.append(part, static_cast<std::size_t>(n));
  ::close(fd);
  return text;
}

// Fault 121: two processes at once on one folder, 20 times.
TEST(DirectoryLock, OneOfTwoProcessesWinsAndTheOtherNamesIt) {
  for (int trial = 0; trial < 20; ++trial) {
    const Scratch scratch;
    std::array<int, 2> start, stop;
    ASSERT_EQ(::pipe(start.data()) + ::pipe(stop.data()), 0);
    const Contender a = start_contender(scratch.path(), start, stop), b = start_contender(scratch.path(), start, stop);
    ::close(start[0]), ::close(start[1]), ::close(stop[0]);
    const std::string said_a = read_to_end(a.report), said_b = read_to_end(b.report);
    ::close(stop[1]);
    for (const pid_t pid : {a.pid, b.pid}) {
      int status = -1;
      ::waitpid(pid, &status, 0);
      EXPECT_EQ(status, 0);
    }
    ASSERT_EQ((said_a == "won") + (said_b == "won"), 1) << said_a << " | " << said_b;
    const auto& [winner, loser] = said_a == "won" ? std::pair(a, said_b) : std::pair(b, said_a);
    EXPECT_THAT(loser, AllOf(HasSubstr(scratch.path().string() + " is in use by process " + std::to_string(winner.pid) + " on "),
                             HasSubstr("running since 20"), HasSubstr("--out")));
  }
}

TEST(DirectoryLock, HoldsPidHostAndStartTime) {
  const Scratch scratch;
  {
    const DirectoryLock lock(scratch.path());
    const std::regex line(std::to_string(::getpid()) + R"( [^ ]+ 20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ\n)");
    EXPECT_TRUE(std::regex_match(read_file(scratch / "LOCK"), line)) << read_file(scratch / "LOCK");
    EXPECT_THROW(DirectoryLock again(scratch.path()), ConfigError);
  }
  EXPECT_NO_THROW(DirectoryLock again(scratch.path())) << "released with its object";
}

TEST(DirectoryLock, IsFreeAtOnceWhenItsOwnerIsKilled) {
  const Scratch scratch;
  std::array<int, 2> start, stop;
  ASSERT_EQ(::pipe(start.data()) + ::pipe(stop.data()), 0);
  const Contender owner = start_contender(scratch.path(), start, stop);
  ::close(start[0]), ::close(start[1]), ::close(stop[0]);
  ASSERT_EQ(read_to_end(owner.report), "won");
  EXPECT_THROW(DirectoryLock lock(scratch.path()), ConfigError);
  ::kill(owner.pid, SIGKILL);
  ::waitpid(owner.pid, nullptr, 0);
  ::close(stop[1]);
  EXPECT_NO_THROW(DirectoryLock lock(scratch.path()));
}

TEST(DirectoryLock, DoesNotFollowALink) {
  const Scratch scratch;
  write_file_atomic(scratch / "precious", "kept");
  fs::create_symlink("precious", scratch / "LOCK");
  EXPECT_THAT(message_of<IoError>([&] { DirectoryLock lock(scratch.path()); }), HasSubstr("LOCK: Too many levels"));
  EXPECT_EQ(read_file(scratch / "precious"), "kept");
}

}  // namespace
}  // namespace posenc
