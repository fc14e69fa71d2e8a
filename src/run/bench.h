#pragma once
// What `posenc bench` measures, and how: attention on each path, one optimizer step, scoring of one long window, the start of the
// program. Names are stable, so that results of two builds or machines can be laid side by side.
//
//   for (const BenchCase& c : matching_bench_cases("^train/")) show(measure(c, options));
//
// Inputs are random numbers and random bytes from fixed seeds. No torch here, nor in bench_cases.cpp; measure() needs it.

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace posenc {

/// Causal attention of one sequence, 8 heads of width 64, float32.
struct AttentionCase {
  static constexpr std::int64_t kHeads = 8, kWidth = 64;
  std::string path = "fused";  ///< fused: the kernel alone, on all threads; blocked, reference: AttentionPlan, on one
  std::string scheme;          ///< whose bias or rotation it has
  std::int64_t tokens = 0;
  bool backward = false;  ///< gradients of q, k, v as well; the kernel's also of the bias
};

/// S: 4 layers, d_model 128, 4 heads. M: 6 layers, d_model 384, 6 heads. Both have a vocabulary of 256.
enum class BenchModel { kS, kM };

/// One optimizer step over kTokens tokens.
struct TrainCase {
  static constexpr std::int64_t kTokens = 4096;
  BenchModel model = BenchModel::kS;
  std::string scheme;
  std::int64_t length = 0;
};

/// Losses of all targets of one window.
struct EvalCase {
  BenchModel model = BenchModel::kS;
  std::string scheme;
  std::int64_t length = 0;
};

/// `posenc --help`, from the start of the process to its end.
struct StartupCase {};

struct BenchCase {
  std::string name;
  std::variant<AttentionCase, TrainCase, EvalCase, StartupCase> what;
};

/// All there are, in the order of the table.
const std::vector<BenchCase>& bench_cases();

/// Those in whose name `filter`, an ECMAScript regular expression, is found. ConfigError when it is none or matches nothing.
std::vector<BenchCase> matching_bench_cases(const std::string& filter);

struct BenchOptions {
  int repetitions = 3;
  double min_time = 0.5;  ///< seconds of each repetition, at least; one iteration always
  int threads = 1;        ///< worker threads
};

/// Seconds are wall time of one iteration.
struct Measurement {
  std::string name;
  int threads = 1;                          ///< that it ran on
  double seconds = 0;                       ///< median over the repetitions
  double seconds_min = 0, seconds_max = 0;  ///< over the repetitions
  std::optional<double> gflops, tokens_per_second;
  std::optional<std::int64_t> peak_rss_bytes;  ///< of this process from its start on, whatever it measured before
};

Measurement measure(const BenchCase& c, const BenchOptions& options);

}  // namespace posenc
