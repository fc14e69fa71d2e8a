#include "run/sweep.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "cli/command.h"
#include "core/files.h"
#include "report/report.h"

namespace posenc {
namespace {

struct Options {
  std::string config, out, format = "text";
  int jobs = 0;
  bool resume = false, fail_fast = false, keep_going = false, dry_run = false;
};

int list_cells(const Sweep& sweep) {
  std::string text = fmt::format("{}: {} cells\n", sweep.name, sweep.cells.size());
  bool wrong = false;
  for (const SweepCell& cell : sweep.cells) {
    text += fmt::format("  {}  {}\n", cell.name, cell.values);
    if (!cell.experiment) text += "    " + cell.error + "\n", wrong = true;
  }
  deliver(text, "");
  return wrong ? static_cast<int>(ExitCode::kConfig) : 0;
}

std::vector<Results> cell_results(const Sweep& sweep, const fs::path& directory) {
  std::vector<Results> runs;
  for (const SweepCell& cell : sweep.cells) {
    if (!fs::exists(directory / cell.name)) continue;
    for (Results& run : load_results(directory / cell.name)) runs.push_back(std::move(run));
  }
  return runs;
}

int run(const Options& o, const GlobalOptions& global) {
  const Sweep sweep = load_sweep(o.config);
  if (o.dry_run) return list_cells(sweep);
  SweepOptions options;
  options.directory = o.out.empty() ? fs::path("runs") / sweep.name : fs::path(o.out);
  options.jobs = o.jobs;
  options.threads = global.threads;
  options.resume = o.resume;
  options.fail_fast = o.fail_fast;
  const SweepOutcome outcome = run_sweep(sweep, options);
  const std::vector<Results> runs = cell_results(sweep, options.directory);
  if (!runs.empty()) {
    write_file_atomic(options.directory / "report.md", format_report(runs, "md"));
    write_file_atomic(options.directory / "results.json", format_report(runs, "json"));
    deliver(format_report(runs, o.format), "");
  }
  spdlog::info("{}: {} finished, {} finished before, {} failed, {} diverged", sweep.name, outcome.finished, outcome.skipped,
               outcome.failed, outcome.diverged);
  if (outcome.stopped) return static_cast<int>(ExitCode::kStopped);
  return outcome.failed + outcome.diverged > 0 ? static_cast<int>(ExitCode::kSweepFailed) : 0;
}

}  // namespace

void add_sweep(CLI::App& app, const GlobalOptions& global, Action& action) {
  auto* command = app.add_subcommand("sweep", "every cell of a grid, each a run; prints the table over all of them");
  auto options = std::make_shared<Options>();
  command->add_option("--config", options->config, "sweep file")->required();
  command->add_option("--out", options->out, "sweep directory; default runs/NAME");
  command->add_option("--jobs", options->jobs, "runs at once; default: cores / threads")->check(CLI::Range(1, 1024));
  command->add_option("--format", options->format, "of the table: text, md, csv or json");
  command->add_flag("--resume", options->resume, "skip finished cells, continue the others");
  auto* keep_going = command->add_flag("--keep-going", options->keep_going, "go on after a failed cell (the default)");
  command->add_flag("--fail-fast", options->fail_fast, "start no more cells after a failed one")->excludes(keep_going);
  command->add_flag("--dry-run", options->dry_run, "list the cells and run nothing");
  command->callback([options, &global, &action] { action = [options, &global] { return run(*options, global); }; });
}

}  // namespace posenc
