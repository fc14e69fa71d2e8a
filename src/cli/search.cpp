#include "cli/command.h"
#include "cli/tensor_commands.h"

namespace posenc {

void add_search(CLI::App& app, const GlobalOptions& global, Action& action) {
  auto* command =
      app.add_subcommand("search", "find LongRoPE's divisors for a trained rotary model; prints the extension for --extend");
  auto request = std::make_shared<SearchRequest>();
  command->add_option("run", request->run, "run directory")->required();
  command->add_option("--length", request->length, "of the windows to extend to; more than the training length")->required();
  command->add_option("--population", request->population, "candidates a generation")
      ->check(CLI::Range(4, 10000))
      ->capture_default_str();
  command->add_option("--iterations", request->iterations, "generations")->check(CLI::Range(1, 100000))->capture_default_str();
  command->add_option("--windows", request->windows, "of the validation split, scored for every candidate")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  command->add_option("--seed", request->seed, "of the mutations")->capture_default_str();
  command->add_option("--out", request->out, "keeps the state after every generation; default RUN/longrope-LENGTH.json");
  command->add_flag("--resume", request->resume, "go on from that state");
  command->callback([request, &global, &action] {
    action = [request, &global] {
      SearchRequest asked = *request;
      Experiment experiment = read_run_config(asked.run);
      if (global.threads > 0) experiment.runtime.threads = global.threads;
      ExtensionConfig longrope;
      longrope.name = "longrope";
      const std::string misfit = extension_misfit(longrope, stages(experiment).back().model.position.used_schemes());
      if (!misfit.empty()) throw ConfigError(misfit);
      if (asked.out.empty()) asked.out = asked.run / ("longrope-" + std::to_string(asked.length) + ".json");
      if (fs::exists(asked.out) && !asked.resume)
        throw ConfigError(asked.out.string() + " exists: --resume goes on from it, --out names another file");
      return run_search(asked, experiment);
    };
  });
}

}  // namespace posenc
