#pragma once
// What needs LibTorch. `posenc` has each of these as a hand-over to the executable `posenc-torch` beside it (light/handover.cpp);
// `posenc-torch` has the real ones (tensors/). By then the command line and the config have been checked.

#include <filesystem>
#include <string>
#include <vector>

#include "config/experiment.h"
#include "run/bench.h"
#include "run/run_dir.h"

namespace posenc {

int run_train(const Experiment& experiment, const std::filesystem::path& directory, RunMode mode);
int run_eval(const std::filesystem::path& directory, const Experiment& experiment, const std::string& out);
int run_plan(const Experiment& experiment, const std::string& format);
int run_doctor(const std::string& format);
int run_bench(const std::vector<BenchCase>& cases, const BenchOptions& options, const std::string& format);

}  // namespace posenc
