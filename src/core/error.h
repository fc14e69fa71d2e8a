#pragma once
// Errors are values to show. Each class below carries the exit code the command line ends with, so that `main`
// catches once and scripts can tell a bad config from a full disk. Throw the most specific one:
//   ConfigError  the user's file or flag (all problems of a file at once)      exit 2
//   DataError    corrupt or unusable data, checkpoint, weights                 exit 65
//   IoError      the operating system refused: open, write, space              exit 74
//   std::runtime_error for the rest of the world                               exit 1
// POSENC_CHECK is for our own bugs only.

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace posenc {

enum class ExitCode : int {
  kOk = 0,
  kGateFailed = 1,
  kConfig = 2,
  kNotComparable = 3,
  kDiverged = 4,
  kSweepFailed = 5,
  kCorrupt = 65,
  kIo = 74,
  kStopped = 75,
};

/// An error with the exit code the process ends with.
class Error : public std::runtime_error {
 public:
  Error(ExitCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ExitCode code() const { return code_; }

 private:
  ExitCode code_;
};

/// One thing wrong with a user's input.
struct Problem {
  std::string where;    ///< "configs/rope.json:12:7" or "--set /train/length=64"; may be empty
  std::string pointer;  ///< JSON pointer, e.g. "/model/heads"; may be empty
  std::string rule;     ///< what is wrong, and the remedy: "7 does not divide d_model 256 (try 4 or 8)"
};

/// Every problem of a user's file or flags, found in one go.
class ConfigError : public Error {
 public:
  explicit ConfigError(std::vector<Problem> problems);
  explicit ConfigError(const std::string& rule);
  const std::vector<Problem>& problems() const { return problems_; }

 private:
  std::vector<Problem> problems_;
};

class DataError : public Error {
 public:
  explicit DataError(const std::string& message) : Error(ExitCode::kCorrupt, message) {}
};

class IoError : public Error {
 public:
  explicit IoError(const std::string& message) : Error(ExitCode::kIo, message) {}
};

[[noreturn]] void check_failed(const char* expression, const char* file, int line, const std::string& message);

}  // namespace posenc

/// An invariant of our own code. A failure is a bug of posenc, never of the user's input.
#define POSENC_CHECK(condition, message)                                                 \
  do {                                                                                   \
    if (!(condition)) ::posenc::check_failed(#condition, __FILE__, __LINE__, (message)); \
  } while (false)
