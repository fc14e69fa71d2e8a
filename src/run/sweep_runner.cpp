// Runs a sweep's cells as processes of this program, a few at a time.
#include <fcntl.h>
#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <map>
#include <thread>

#include "core/files.h"
#include "core/machine.h"
#include "core/results.h"
#include "run/signals.h"
#include "run/sweep.h"

namespace posenc {
namespace {

/// Starts `posenc train` on a cell's config.json, its output going to train.log. The child ends when this process does.
pid_t start(const fs::path& cell, int threads) {
  const std::string config = (cell / "config.json").string(), log = (cell / "train.log").string(),
                    count = std::to_string(threads);
  const pid_t child = fork();
  if (child < 0) throw IoError(std::string("cannot start a process: ") + std::strerror(errno));
  if (child > 0) return child;
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  setpgid(0, 0);  // the terminal's Ctrl-C reaches the sweep, which passes it on
  hold_stop_signals();
  if (stop_requested()) _exit(static_cast<int>(ExitCode::kStopped));
  const int out = open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (out < 0 || dup2(out, STDOUT_FILENO) < 0 || dup2(out, STDERR_FILENO) < 0) _exit(static_cast<int>(ExitCode::kIo));
  execl("/proc/self/exe", "posenc", "--threads", count.c_str(), "train", "--config", config.c_str(), "--out", cell.c_str(),
        "--resume", nullptr);
  _exit(127);
}

/// The last line a failed process wrote, which is its error.
std::string last_line(const fs::path& log) {
  if (!fs::exists(log)) return "no output";
  std::string text = read_file(log);
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text.substr(text.rfind('\n') + 1);
}

class Runner {
 public:
  Runner(const Sweep& sweep, const SweepOptions& options) : sweep_(sweep), options_(options) {
    const int cores = available_cores();
    jobs_ = options.jobs > 0 ? std::min(options.jobs, cores) : std::max(1, cores / std::max(1, options.threads));
    if (options.jobs > cores)
      spdlog::warn("--jobs {} is more than the {} cores this process may use; running {}", options.jobs, cores, jobs_);
    threads_ = options.threads > 0 ? std::min(options.threads, std::max(1, cores / jobs_)) : std::max(1, cores / jobs_);
  }

  SweepOutcome run() {
    for (const SweepCell& cell : sweep_.cells) {
      if (stop_requested() || (options_.fail_fast && failures() > 0)) break;
      if (!cell.experiment) {
        fail(cell, cell.error, static_cast<int>(ExitCode::kConfig));
        write_file_atomic(directory(cell) / "config.json", dump_json(cell.given));  // so that reports can say which one it was
      } else if (fs::exists(directory(cell) / "results.json")) {
        ++outcome_.skipped;
        count_diverged(cell);
      } else {
        launch(cell);
      }
      while (static_cast<int>(running_.size()) >= jobs_) wait_for_one();
    }
    while (!running_.empty()) wait_for_one();
    outcome_.stopped = stop_requested();
    return outcome_;
  }

 private:
  fs::path directory(const SweepCell& cell) const { return options_.directory / cell.name; }
  int failures() const { return outcome_.failed + outcome_.diverged; }

  void launch(const SweepCell& cell) {
    fs::create_directories(directory(cell));
    if (!fs::exists(directory(cell) / "config.json"))
      write_file_atomic(directory(cell) / "config.json", dump_json(resolved_json(*cell.experiment)));
    spdlog::info("{}: started ({})", cell.name, cell.values);
    running_[start(directory(cell), threads_)] = &cell;
  }

  void wait_for_one() {
    int status = 0;
    pid_t child;
    while ((child = waitpid(-1, &status, WNOHANG)) == 0) {
      pass_on_stop();
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    const auto it = running_.find(child);
    if (it == running_.end()) return;
    const SweepCell& cell = *it->second;
    running_.erase(it);
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    if (code == 0) {
      ++outcome_.finished;
      spdlog::info("{}: finished", cell.name);
    } else if (code == static_cast<int>(ExitCode::kDiverged)) {
      count_diverged(cell);
    } else if (!stop_requested() || (code != static_cast<int>(ExitCode::kStopped) && code != 128 + SIGTERM)) {
      fail(cell,
           WIFSIGNALED(status) ? fmt::format("killed by signal {}", WTERMSIG(status)) : last_line(directory(cell) / "train.log"),
           code);
    }
  }

  /// Each child is told once; it saves and ends.
  void pass_on_stop() {
    if (!stop_requested() || told_) return;
    told_ = true;
    for (const auto& [pid, cell] : running_) kill(pid, SIGTERM);
  }

  void count_diverged(const SweepCell& cell) {
    const Results results = load_results(directory(cell) / "results.json").front();
    if (results.status == "ok") return;
    ++outcome_.diverged;
    spdlog::error("{}: {}: {}", cell.name, results.status, results.reason);
  }

  void fail(const SweepCell& cell, const std::string& reason, int code) {
    ++outcome_.failed;
    spdlog::error("{}: failed (exit {}): {}", cell.name, code, reason);
    fs::create_directories(directory(cell));
    write_file_atomic(directory(cell) / "status.json",
                      dump_json({{"status", "failed"}, {"reason", reason}, {"exit_code", code}, {"values", cell.values}}));
  }

  const Sweep& sweep_;
  const SweepOptions& options_;
  int jobs_ = 1, threads_ = 1;
  bool told_ = false;
  SweepOutcome outcome_;
  std::map<pid_t, const SweepCell*> running_;
};

/// Notes what this grid was, and says which finished cells of an earlier grid it no longer has.
void record_grid(const Sweep& sweep, const fs::path& directory) {
  Json cells = Json::object();
  for (const SweepCell& cell : sweep.cells) cells[cell.name] = cell.values;
  const fs::path file = directory / "sweep.json";
  if (fs::exists(file)) {
    const Json before = load_json(file).root["cells"];
    for (const auto& [name, values] : before.items()) {
      if (!cells.contains(name))
        spdlog::warn("the grid has changed: {} ({}) is no longer part of it; its files stay", name, values.get<std::string>());
    }
  }
  write_file_atomic(file, dump_json({{"name", sweep.name}, {"cells", std::move(cells)}}));
}

}  // namespace

SweepOutcome run_sweep(const Sweep& sweep, const SweepOptions& options) {
  if (!options.resume && fs::exists(options.directory / "sweep.json")) {
    throw ConfigError(options.directory.string() + " holds a sweep already: --resume continues it, --out names another place");
  }
  make_writable_directory(options.directory);
  const DirectoryLock lock(options.directory);
  record_grid(sweep, options.directory);
  return Runner(sweep, options).run();
}

}  // namespace posenc
