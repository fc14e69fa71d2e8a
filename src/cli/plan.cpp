#include "cli/command.h"
#include "cli/tensor_commands.h"

namespace posenc {

void add_plan(CLI::App& app, const GlobalOptions& global, Action& action) {
  struct Options {
    std::string config, format = "text";
    std::vector<std::string> set;
  };
  auto* command =
      app.add_subcommand("plan", "parameters, memory and time of an experiment, and its resolved config; nothing is run");
  auto options = std::make_shared<Options>();
  command->add_option("--config", options->config, "experiment file")->required();
  command->add_option("--set", options->set, "change a value: --set /train/steps=100")->allow_extra_args(false);
  command->add_option("--format", options->format, "text or json")->check(CLI::IsMember({"text", "json"}));
  command->callback([options, &global, &action] {
    action = [options, &global] {
      Experiment experiment = load_experiment(options->config, options->set);
      if (global.threads > 0) experiment.runtime.threads = global.threads;
      return run_plan(experiment, options->format);
    };
  });
}

}  // namespace posenc
