#include <spdlog/spdlog.h>

#include "cli/command.h"
#include "cli/tensor_commands.h"
#include "report/report.h"
#include "run/blas.h"
#include "run/experiment.h"

namespace posenc {
namespace {

void warn_of_slow_blas() {
  const BlasInfo blas = blas_info();
  if (blas.slow())
    spdlog::warn("{} is not OpenBLAS: many times slower; apt-get install libopenblas0-openmp (see posenc doctor)", blas.library);
}

}  // namespace

int run_train(const Experiment& experiment, const fs::path& directory, RunMode mode) {
  warn_of_slow_blas();
  const Results results = run_experiment(experiment, directory, mode);
  write_file_atomic(directory / "report.md", format_report({results}, "md"));
  deliver(format_run_table(results), "");
  if (results.status == "ok") return 0;
  spdlog::error("{}: diverged: {}", experiment.name, results.reason);
  return static_cast<int>(ExitCode::kDiverged);
}

int run_eval(const fs::path& directory, const Experiment& experiment, const std::string& out) {
  warn_of_slow_blas();
  const Results results = evaluate_run(directory, experiment);
  if (!out.empty()) write_file_atomic(out, dump_json(results_to_json(results)));
  deliver(format_run_table(results), "");
  return 0;
}

}  // namespace posenc
