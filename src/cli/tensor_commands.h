#pragma once
// What needs LibTorch. `posenc` has each of these as a hand-over to the executable `posenc-torch` beside it (light/handover.cpp);
// `posenc-torch` has the real ones (tensors/). By then the command line and the config have been checked.

#include <filesystem>
#include <string>
#include <vector>

#include "config/experiment.h"
#include "eval/sampling.h"
#include "run/bench.h"
#include "run/run_dir.h"

namespace posenc {

int run_train(const Experiment& experiment, const std::filesystem::path& directory, RunMode mode);
int run_eval(const std::filesystem::path& directory, const Experiment& experiment, const std::string& out);
/// What `posenc generate` was asked for. Prompts as text; `sampling` and the rest as generate.h has them.
struct GenerateRequest {
  std::filesystem::path run;
  std::vector<std::string> prompts;
  std::int64_t tokens = 200;
  Sampling sampling;
  std::int64_t seed = 1;
  std::string format = "text";  ///< text | json
};
/// Under the first of the experiment's eval.extensions, if it has any.
int run_generate(const GenerateRequest& request, const Experiment& experiment);

/// What `posenc search` was asked for; the rest as longrope_search.h has it.
struct SearchRequest {
  std::filesystem::path run, out;
  std::int64_t length = 0, population = 16, iterations = 10, windows = 8, seed = 1;
  bool resume = false;
};
int run_search(const SearchRequest& request, const Experiment& experiment);

struct InspectRequest {
  std::string target;  ///< a scheme or a run directory
  bool is_run = false;
  std::vector<std::string> probes;  ///< "distance", "order"
  std::string format = "text";
};
int run_inspect(const InspectRequest& request, const Experiment& experiment);

int run_plan(const Experiment& experiment, const std::string& format);
int run_doctor(const std::string& format);
int run_bench(const std::vector<BenchCase>& cases, const BenchOptions& options, const std::string& format);

}  // namespace posenc
