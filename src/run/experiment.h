#pragma once
// One experiment from values to files: the six calls that posenc is made of.

#include <filesystem>
#include <string>
#include <vector>

#include "config/experiment.h"
#include "core/results.h"
#include "eval/evaluate.h"
#include "run/run_dir.h"

namespace posenc {

/// Trains, evaluates and writes the run directory. The status of the results is "ok" or "diverged". Throws Error(kStopped) when a
/// signal ended it with a checkpoint saved.
Results run_experiment(const Experiment& experiment, const std::filesystem::path& directory, RunMode mode);

/// Evaluates a finished run's weights again, as `experiment` (its config, with another eval or data section) says.
Results evaluate_run(const std::filesystem::path& directory, const Experiment& experiment);

/// Worker threads to use: the config's, else the cores this process may use.
int worker_threads(const RuntimeConfig& runtime);

/// How `experiment` evaluates; a signal stops it.
EvalSettings eval_settings(const Experiment& experiment);

}  // namespace posenc
