#include "core/files.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "core/error.h"
#include "core/machine.h"

namespace posenc {
namespace {

[[noreturn]] void fail(const char* action, const fs::path& path, int error) {
  throw IoError(std::string("cannot ") + action + " " + path.string() + ": " + std::generic_category().message(error));
}

/// Closes on every way out.
struct Descriptor {
  explicit Descriptor(int number) : fd(number) {}
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int fd;
};

/// open(2) until no signal interrupts it; -1 with errno set.
int open_file(const fs::path& path, int flags) {
  int fd = -1;
  do fd = ::open(path.c_str(), flags | O_CLOEXEC, 0666);
  while (fd < 0 && errno == EINTR);
  return fd;
}

fs::path folder_of(const fs::path& path) { return path.has_parent_path() ? path.parent_path() : fs::path("."); }

/// A write beyond `ulimit -f` must fail with EFBIG; by default its signal ends the process. A handler of the caller stays.
void ignore_file_size_signal() {
  [[maybe_unused]] static const bool once = [] {
    struct sigaction current {};
    if (::sigaction(SIGXFSZ, nullptr, &current) == 0 && current.sa_handler == SIG_DFL) std::signal(SIGXFSZ, SIG_IGN);
    return true;
  }();
}

[[noreturn]] void fail_writing(const fs::path& path, std::size_t needed, int error) {
  if (error != ENOSPC && error != EDQUOT && error != EFBIG) fail("write", path, error);
  std::string message = "cannot write " + path.string() + ": " + std::generic_category().message(error) + "; " +
                        std::to_string(needed) + " bytes needed";
  struct statvfs space {};
  if (::statvfs(folder_of(path).c_str(), &space) == 0) {
    message += ", " + std::to_string(std::uint64_t{space.f_bavail} * space.f_frsize) + " free on its file system";
  }
  throw IoError(message + (error == ENOSPC ? "" : " (limited by a quota or `ulimit -f`)"));
}

/// `shown` is the path for messages: that of the final file, which the user knows.
void write_all(int fd, std::string_view bytes, const fs::path& shown) {
  ignore_file_size_signal();
  for (std::string_view rest = bytes; !rest.empty();) {
    const ssize_t n = ::write(fd, rest.data(), rest.size());
    if (n >= 0) rest.remove_prefix(static_cast<std::size_t>(n));
    else if (errno != EINTR) fail_writing(shown, bytes.size(), errno);
  }
}

void sync_folder(const fs::path& folder) {
  const Descriptor directory(open_file(folder, O_RDONLY | O_DIRECTORY));
  if (directory.fd < 0) fail("open folder", folder, errno);
  const bool refused = ::fsync(directory.fd) != 0;
  if (refused && errno != EINVAL) fail("sync folder", folder, errno);  // EINVAL: this file system does not offer it
}

/// A new file beside the one it will replace, removed unless it was renamed. Its name does not build on the final one, which may
/// already be as long as names can be.
class TemporaryFile {
 public:
  TemporaryFile(const fs::path& folder, const fs::path& shown) : shown_(shown) {
    static std::atomic<unsigned> counter{0};
    do {
      path_ = folder / (".posenc-" + std::to_string(::getpid()) + "-" + std::to_string(counter++) + ".tmp");
      fd_ = open_file(path_, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW);
    } while (fd_ < 0 && errno == EEXIST);  // left by a killed process that had our pid
    if (fd_ < 0) fail("create a file for", shown_, errno);
  }
  ~TemporaryFile() {
    if (fd_ >= 0) ::close(fd_);
    if (!path_.empty()) ::unlink(path_.c_str());
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  int fd() const { return fd_; }
  void replace(const fs::path& target, std::size_t size) {
    if (::fsync(fd_) != 0) fail_writing(shown_, size, errno);
    if (::close(std::exchange(fd_, -1)) != 0) fail_writing(shown_, size, errno);
    if (::rename(path_.c_str(), target.c_str()) != 0) fail("replace", shown_, errno);
    path_.clear();
  }

 private:
  fs::path path_, shown_;
  int fd_ = -1;
};

/// The file that links end at, whether it exists or not.
fs::path follow_links(const fs::path& path) {
  fs::path target = path;
  std::error_code none;
  for (int hops = 0; fs::is_symlink(fs::symlink_status(target, none)); ++hops) {
    if (hops == 40) fail("write", path, ELOOP);
    target = folder_of(target) / fs::read_symlink(target, none);
  }
  return target;
}

/// The mode of the file to be replaced; nullopt when there is none. Devices, pipes and folders are not ours to replace.
std::optional<mode_t> mode_to_keep(const fs::path& target) {
  struct stat old {};
  if (::lstat(target.c_str(), &old) != 0) return std::nullopt;
  if (S_ISDIR(old.st_mode)) fail("write", target, EISDIR);
  if (!S_ISREG(old.st_mode)) {
    throw IoError("cannot write " + target.string() + ": not a regular file, and only those are replaced");
  }
  return old.st_mode & 07777;
}

/// What the owner wrote, or "" when it has not come to it within 50 ms.
std::string lock_owner(int fd) {
  char text[512];
  for (int tries = 0; tries < 10; ++tries) {
    const ssize_t n = ::pread(fd, text, sizeof text, 0);
    if (n > 0) return std::string(text, static_cast<std::size_t>(n));
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return "";
}

[[noreturn]] void fail_locked(const fs::path& lock, const std::string& owner) {
  char pid[32] = "", host[256] = "", start[64] = "";
  std::string who = "another process";
  if (std::sscanf(owner.c_str(), "%31s %255s %63s", pid, host, start) == 3) {
    who = std::string("process ") + pid + " on " + host + ", running since " + start;
  }
  throw ConfigError(folder_of(lock).string() + " is in use by " + who +
                    "; wait until it ends, or choose another folder with --out");
}

}  // namespace

std::string read_file(const fs::path& path) {
  const Descriptor file(open_file(path, O_RDONLY));
  if (file.fd < 0) fail("open", path, errno);
  struct stat status {};
  if (::fstat(file.fd, &status) != 0) fail("read", path, errno);
  if (S_ISDIR(status.st_mode)) throw IoError("cannot read " + path.string() + ": it is a directory, a file is needed");

  // One byte more than the size says, so that the end is seen without growing; pipes and /proc say 0.
  std::string bytes(S_ISREG(status.st_mode) && status.st_size > 0 ? static_cast<std::size_t>(status.st_size) + 1 : 65536, '\0');
  std::size_t used = 0;
  while (true) {
    if (used == bytes.size()) bytes.resize(2 * used);
    const ssize_t n = ::read(file.fd, bytes.data() + used, bytes.size() - used);
    if (n == 0) break;
    if (n > 0) used += static_cast<std::size_t>(n);
    else if (errno != EINTR) fail("read", path, errno);
  }
  bytes.resize(used);
  return bytes;
}

void write_file_atomic(const fs::path& path, std::string_view bytes) {
  const fs::path target = follow_links(path);
  const fs::path folder = folder_of(target);
  const std::optional<mode_t> mode = mode_to_keep(target);
  TemporaryFile file(folder, path);
  if (mode && ::fchmod(file.fd(), *mode) != 0) fail("set the mode of", path, errno);
  write_all(file.fd(), bytes, path);
  file.replace(target, bytes.size());
  sync_folder(folder);
}

void make_writable_directory(const fs::path& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) throw IoError("cannot create folder " + path.string() + ": " + error.message());
  const TemporaryFile probe(path, path);
  write_all(probe.fd(), "x", path);
}

AppendFile::AppendFile(const fs::path& path) : path_(path), fd_(-1) {
  Descriptor file(open_file(path, O_RDWR | O_APPEND | O_CREAT));
  if (file.fd < 0) fail("open", path, errno);
  const off_t size = ::lseek(file.fd, 0, SEEK_END);
  off_t whole = size;  // a process killed while writing leaves half a line, which the next one would be glued to
  for (char last = 0; whole > 0 && ::pread(file.fd, &last, 1, whole - 1) == 1 && last != '\n';) --whole;
  if (whole < size && ::ftruncate(file.fd, whole) != 0) fail("cut the unfinished last line of", path, errno);
  fd_ = std::exchange(file.fd, -1);
}

AppendFile::~AppendFile() { ::close(fd_); }

void AppendFile::line(std::string_view text) {
  std::string whole(text);
  whole += '\n';
  write_all(fd_, whole, path_);
}

void AppendFile::sync() {
  if (::fsync(fd_) != 0) fail("sync", path_, errno);
}

DirectoryLock::DirectoryLock(const fs::path& directory) : path_(directory / "LOCK"), fd_(-1) {
  Descriptor file(open_file(path_, O_RDWR | O_CREAT | O_NOFOLLOW));
  if (file.fd < 0) fail("open", path_, errno);
  if (::flock(file.fd, LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) fail_locked(path_, lock_owner(file.fd));
    fail("lock", path_, errno);
  }
  if (::ftruncate(file.fd, 0) != 0) fail("write", path_, errno);
  write_all(file.fd, std::to_string(::getpid()) + " " + host_name() + " " + utc_now() + "\n", path_);
  fd_ = std::exchange(file.fd, -1);
}

// The file stays, empty: removing it would let two later processes lock two different files of that name.
DirectoryLock::~DirectoryLock() {
  if (::ftruncate(fd_, 0) != 0) std::perror(path_.c_str());
  ::close(fd_);
}

std::string sha256(std::string_view bytes) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  POSENC_CHECK(EVP_Digest(bytes.data(), bytes.size(), digest, &size, EVP_sha256(), nullptr) == 1, "libcrypto offers SHA-256");
  std::string hex;
  for (unsigned int i = 0; i < size; ++i) {
    hex += "0123456789abcdef"[digest[i] >> 4];
    hex += "0123456789abcdef"[digest[i] & 15];
  }
  return hex;
}

}  // namespace posenc
