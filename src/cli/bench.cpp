#include "cli/command.h"
#include "cli/tensor_commands.h"
#include "core/machine.h"

namespace posenc {
namespace {

int list(const std::vector<BenchCase>& cases) {
  std::string text;
  for (const BenchCase& c : cases) text += c.name + "\n";
  deliver(text, "");
  return 0;
}

}  // namespace

void add_bench(CLI::App& app, const GlobalOptions& global, Action& action) {
  struct Options {
    std::string filter;
    bool list = false, json = false;
    BenchOptions bench;
  };
  auto* command = app.add_subcommand(
      "bench", "speed of attention on each path, of a training step, of scoring long windows, and of the program's start");
  auto options = std::make_shared<Options>();
  command->add_option("--filter", options->filter,
                      "regular expression found in the names to run; default: all, which takes half an hour on two cores");
  command->add_flag("--list", options->list, "print the names and run nothing");
  command->add_flag("--json", options->json,
                    "one JSON document instead of a table; peak_rss_bytes is the whole process's, so run one benchmark alone to "
                    "know its memory");
  command->add_option("--repetitions", options->bench.repetitions, "of each, for median, least and most")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command->add_option("--min-time", options->bench.min_time, "seconds that each repetition takes at least")
      ->check(CLI::Range(0.001, 3600.0))
      ->capture_default_str();
  command->callback([options, &global, &action] {
    action = [options, &global] {
      const std::vector<BenchCase> cases = matching_bench_cases(options->filter);
      if (options->list) return list(cases);
      options->bench.threads = global.threads > 0 ? global.threads : available_cores();
      return run_bench(cases, options->bench, options->json ? "json" : "text");
    };
  });
}

}  // namespace posenc
