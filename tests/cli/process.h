#pragma once
// Runs an executable as a user does: arguments, environment and working directory in; exit code, stdout and stderr out.
//
//   const Outcome done = run({{"report", "runs/rope"}});
//   EXPECT_EQ(done.code, 0) << done.err;
//
//   Process training({{"train", "--config", file, "--out", run}});     // while it runs: signals, a second process, …
//   ASSERT_TRUE(training.wait_until([&] { return fs::exists(run / "metrics.jsonl"); }));
//   training.signal(SIGTERM);
//   EXPECT_EQ(training.wait().code, 75);
//
// stdout and stderr go to files in memory, as with a redirection; `terminal` gives the process a terminal as its stderr.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace posenc {

struct Command {
  std::vector<std::string> arguments;                   ///< without the program's name
  std::map<std::string, std::string> environment = {};  ///< beside this process's own
  std::filesystem::path directory = {};                 ///< to run in; default: this process's
  bool terminal = false;                                ///< stderr is a terminal
  bool unread = false;                                  ///< stdout is a pipe that nobody reads
  bool full = false;                                    ///< stdout is a disk without space
  bool as_nobody = false;                               ///< gives up root, who may write everywhere
  std::optional<rlim_t> largest_file = {};              ///< `ulimit -f`, in bytes
  std::optional<int> core = {};                         ///< `taskset -c`
  std::string program = POSENC_BINARY_DIR "/posenc";
};

struct Outcome {
  int code = -1;   ///< as a shell shows it: 128 + signal when a signal ended it
  int signal = 0;  ///< that signal
  std::string out, err;
  double seconds = 0;      ///< from start to end
  double cpu_seconds = 0;  ///< that it computed, whatever else the machine does
};

class Process {
 public:
  explicit Process(const Command& command)
      : out_(memory_file("stdout")), err_(command.terminal ? open_terminal() : memory_file("stderr")), started_(Clock::now()) {
    const std::string slave = command.terminal ? ::ptsname(err_) : "";
    pid_ = ::fork();
    if (pid_ < 0) throw std::runtime_error("fork failed");
    if (pid_ == 0) become(command, slave);
  }
  ~Process() {
    if (running()) ::kill(pid_, SIGKILL), ::waitpid(pid_, nullptr, 0);
    ::close(out_);
    ::close(err_);
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  pid_t pid() const { return pid_; }
  void signal(int number) { ::kill(pid_, number); }
  bool running() {
    if (!status_) poll();
    return !status_;
  }
  /// Waits for `event` and says whether it came while the process was still running.
  bool wait_until(const std::function<bool()>& event) {
    for (const auto limit = Clock::now() + kPatience; running() && Clock::now() < limit; pause()) {
      if (event()) return true;
    }
    return false;
  }
  Outcome wait() {
    for (const auto limit = Clock::now() + kPatience; running(); pause()) {
      if (Clock::now() < limit) continue;
      ADD_FAILURE() << "the process did not end within " << std::chrono::seconds(kPatience).count() << " s";
      ::kill(pid_, SIGKILL);
    }
    Outcome outcome;
    outcome.signal = WIFSIGNALED(*status_) ? WTERMSIG(*status_) : 0;
    outcome.code = outcome.signal != 0 ? 128 + outcome.signal : WEXITSTATUS(*status_);
    outcome.out = contents(out_);
    outcome.err = terminal_ ? drained_ : contents(err_);
    outcome.seconds = std::chrono::duration<double>(ended_ - started_).count();
    const auto seconds = [](const timeval& time) {
      return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
    };
    outcome.cpu_seconds = seconds(usage_.ru_utime) + seconds(usage_.ru_stime);
    return outcome;
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::seconds kPatience{120};

  static void pause() { std::this_thread::sleep_for(std::chrono::microseconds(300)); }

  static int memory_file(const char* name) {
    const int file = ::memfd_create(name, MFD_CLOEXEC);
    if (file < 0) throw std::runtime_error("memfd_create failed");
    return file;
  }

  int open_terminal() {
    terminal_ = true;
    const int master = ::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
    if (master < 0 || ::grantpt(master) != 0 || ::unlockpt(master) != 0) throw std::runtime_error("no pseudo-terminal");
    return master;
  }

  static std::string contents(int file) {
    std::string text(static_cast<std::size_t>(::lseek(file, 0, SEEK_END)), '\0');
    const ssize_t n = ::pread(file, text.data(), text.size(), 0);
    return text.substr(0, n < 0 ? 0 : static_cast<std::size_t>(n));
  }

  void poll() {
    int status = 0;
    const bool ended = ::wait4(pid_, &status, WNOHANG, &usage_) == pid_;
    char bytes[4096];
    for (ssize_t n = 0; terminal_ && (n = ::read(err_, bytes, sizeof bytes)) > 0;)
      drained_.append(bytes, static_cast<std::size_t>(n));
    if (ended) status_ = status, ended_ = Clock::now();
  }

  /// What the child does between fork and exec.
  [[noreturn]] void become(const Command& command, const std::string& slave) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    int out = out_, err = err_, unread[2] = {-1, -1};
    if (command.unread && ::pipe(unread) == 0) out = unread[1], ::close(unread[0]);
    if (command.full) out = ::open("/dev/full", O_WRONLY);
    if (command.terminal) err = ::open(slave.c_str(), O_RDWR | O_NOCTTY);
    ::dup2(::open("/dev/null", O_RDONLY), STDIN_FILENO);
    ::dup2(out, STDOUT_FILENO);
    ::dup2(err, STDERR_FILENO);
    for (const char* name : {"NO_COLOR", "CI", "LC_ALL", "LANG", "POSENC_DATA"}) ::unsetenv(name);
    for (const auto& [name, value] : command.environment) ::setenv(name.c_str(), value.c_str(), 1);
    if (command.largest_file) {
      const rlimit limit{*command.largest_file, *command.largest_file};
      ::setrlimit(RLIMIT_FSIZE, &limit);
    }
    if (command.core) {
      cpu_set_t set;
      CPU_ZERO(&set);
      CPU_SET(*command.core, &set);
      ::sched_setaffinity(0, sizeof set, &set);
    }
    if (!command.directory.empty() && ::chdir(command.directory.c_str()) != 0) ::_exit(126);
    if (command.as_nobody && ::geteuid() == 0 && (::setgid(65534) != 0 || ::setuid(65534) != 0)) ::_exit(126);
    std::vector<std::string> words = {command.program};
    words.insert(words.end(), command.arguments.begin(), command.arguments.end());
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    ::execvp(command.program.c_str(), argv.data());
    ::_exit(127);
  }

  bool terminal_ = false;
  std::string drained_;  // what the terminal was sent
  int out_, err_;
  pid_t pid_ = -1;
  std::optional<int> status_;
  rusage usage_{};
  Clock::time_point started_, ended_;
};

inline Outcome run(const Command& command) { return Process(command).wait(); }

}  // namespace posenc
