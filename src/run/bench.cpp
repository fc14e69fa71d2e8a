#include "run/bench.h"

#include <benchmark/benchmark.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <memory>
#include <stdexcept>

#include "core/error.h"
#include "core/machine.h"
#include "run/bench_work.h"

namespace posenc {
namespace {

/// Starts a program whose stdout goes nowhere.
class SilentSpawn {
 public:
  SilentSpawn() {
    posix_spawn_file_actions_init(&actions_);
    posix_spawn_file_actions_addopen(&actions_, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  }
  ~SilentSpawn() { posix_spawn_file_actions_destroy(&actions_); }
  SilentSpawn(const SilentSpawn&) = delete;
  SilentSpawn& operator=(const SilentSpawn&) = delete;

  /// Runs `program argument` to its end.
  void run(const std::string& program, const std::string& argument) const {
    char* const argv[] = {const_cast<char*>(program.c_str()), const_cast<char*>(argument.c_str()), nullptr};
    pid_t child = 0;
    const int error = posix_spawn(&child, program.c_str(), &actions_, nullptr, argv, environ);
    if (error != 0) throw std::runtime_error(program + ": " + std::strerror(error));
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    if (status != 0) throw std::runtime_error(program + " " + argument + " failed");
  }

 private:
  posix_spawn_file_actions_t actions_;
};

/// Keeps the seconds of an iteration of every repetition; prints nothing.
class Seconds : public benchmark::BenchmarkReporter {
 public:
  bool ReportContext(const Context&) override { return true; }
  void ReportRuns(const std::vector<Run>& runs) override {
    for (const Run& run : runs) {
      if (run.run_type == Run::RT_Iteration) seconds_.push_back(run.real_accumulated_time / static_cast<double>(run.iterations));
    }
  }
  /// In ascending order.
  std::vector<double> sorted() const {
    std::vector<double> sorted = seconds_;
    std::sort(sorted.begin(), sorted.end());
    return sorted;
  }

 private:
  std::vector<double> seconds_;
};

/// The first iterations fault their memory in and compile products: three are left out, or as many as two seconds hold.
void warm_up(const BenchWork& work) {
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < 3 && std::chrono::steady_clock::now() - start < std::chrono::seconds(2); ++i) work.iteration();
}

std::vector<double> timed(const BenchCase& c, const BenchWork& work, const BenchOptions& options) {
  warm_up(work);
  benchmark::RegisterBenchmark(c.name.c_str(),
                               [&work](benchmark::State& state) {
                                 for (auto _ : state) work.iteration();
                               })
      ->UseRealTime()
      ->Repetitions(options.repetitions)
      ->MinTime(options.min_time);
  Seconds seconds;
  benchmark::RunSpecifiedBenchmarks(&seconds, ".");
  benchmark::ClearRegisteredBenchmarks();
  POSENC_CHECK(!seconds.sorted().empty(), c.name + " was not measured");
  return seconds.sorted();
}

double median(const std::vector<double>& sorted) {
  const std::size_t n = sorted.size();
  return (sorted[(n - 1) / 2] + sorted[n / 2]) / 2;
}

}  // namespace

BenchWork prepare(const StartupCase&, int) {
  const auto program = std::filesystem::read_symlink("/proc/self/exe").parent_path() / "posenc";
  const auto spawn = std::make_shared<SilentSpawn>();
  BenchWork work;
  work.iteration = [spawn, program] { spawn->run(program, "--help"); };
  return work;
}

Measurement measure(const BenchCase& c, const BenchOptions& options) {
  at::set_num_threads(1);
  const BenchWork work = std::visit([&](const auto& what) { return prepare(what, options.threads); }, c.what);
  const std::vector<double> seconds = timed(c, work, options);
  Measurement m;
  m.name = c.name;
  m.threads = work.threads;
  m.seconds = median(seconds);
  m.seconds_min = seconds.front();
  m.seconds_max = seconds.back();
  if (work.flops > 0) m.gflops = work.flops / m.seconds / 1e9;
  if (work.tokens > 0) m.tokens_per_second = static_cast<double>(work.tokens) / m.seconds;
  if (work.shows_memory) m.peak_rss_bytes = peak_rss();
  return m;
}

}  // namespace posenc
