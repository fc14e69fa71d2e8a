#include "cli/command.h"
#include "cli/tensor_commands.h"

namespace posenc {
namespace {

struct TrainOptions {
  std::string config, out;
  std::vector<std::string> set;
  bool resume = false, overwrite = false;
};

}  // namespace

void add_train(CLI::App& app, const GlobalOptions& global, Action& action) {
  auto* command = app.add_subcommand("train", "train, then evaluate as the config says; prints the perplexity table");
  auto options = std::make_shared<TrainOptions>();
  command->add_option("--config", options->config, "experiment file (JSON; `posenc schema` describes it)")->required();
  command->add_option("--set", options->set, "change a value: --set /train/steps=100")->allow_extra_args(false);
  command->add_option("--out", options->out, "run directory; default runs/NAME");
  auto* resume =
      command->add_flag("--resume", options->resume, "continue the run from its last checkpoint; start it when there is none");
  command->add_flag("--overwrite", options->overwrite, "delete the run that is there")->excludes(resume);
  command->callback([options, &global, &action] {
    action = [options, &global] {
      Experiment experiment = load_experiment(options->config, options->set);
      if (global.threads > 0) experiment.runtime.threads = global.threads;
      const RunMode mode = options->resume ? RunMode::kResume : options->overwrite ? RunMode::kOverwrite : RunMode::kNew;
      return run_train(experiment, options->out.empty() ? fs::path("runs") / experiment.name : fs::path(options->out), mode);
    };
  });
}

}  // namespace posenc
