#pragma once
// Files that are never half written. Results replace their predecessor by write-to-temporary, fsync, rename, fsync of the folder;
// logs are appended line by line; one process at a time owns a run directory. Every failure is an IoError naming path and cause.

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace posenc {

namespace fs = std::filesystem;

/// The whole file. IoError (open, read; a directory is named as such) with the path.
std::string read_file(const fs::path& path);

/// Replaces `path` in one step: readers see the old bytes or the new ones, also after a crash or a full disk. The mode is that of
/// the file replaced, else 0666 & ~umask. A symbolic link is followed: its target is replaced, the link stays.
void write_file_atomic(const fs::path& path, std::string_view bytes);

/// Creates `path` and its parents, and proves with a probe file that it can be written to. IoError otherwise.
void make_writable_directory(const fs::path& path);

/// A log: each line is one write(2) call of a whole line to a file opened for appending. Opening it cuts off an unfinished last
/// line, which a killed process may have left.
class AppendFile {
 public:
  explicit AppendFile(const fs::path& path);
  ~AppendFile();
  AppendFile(const AppendFile&) = delete;
  AppendFile& operator=(const AppendFile&) = delete;
  void line(std::string_view text);  ///< adds the newline
  void sync();                       ///< fsync

 private:
  fs::path path_;
  int fd_;
};

/// Exclusive ownership of a directory through flock(2) on `<dir>/LOCK`, which holds pid, host and start time of the owner.
/// Released when the process ends, however it ends.
class DirectoryLock {
 public:
  /// Throws ConfigError (exit 2) at once, naming pid, host and start time of the owner, when another process holds it.
  explicit DirectoryLock(const fs::path& directory);
  ~DirectoryLock();
  DirectoryLock(const DirectoryLock&) = delete;
  DirectoryLock& operator=(const DirectoryLock&) = delete;

 private:
  fs::path path_;
  int fd_;
};

/// Lower-case hex SHA-256 of bytes (as `sha256sum` prints it).
std::string sha256(std::string_view bytes);

}  // namespace posenc
