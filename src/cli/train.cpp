#include "cli/command.h"
#include "cli/tensor_commands.h"

namespace posenc {
namespace {

struct TrainOptions {
  std::string config, from, out;
  std::vector<std::string> set;
  bool resume = false, overwrite = false;
};

/// The configuration of a finished run, to go on from where it ended: its last position, its training length as the trained one.
Document continued(const fs::path& run) {
  Document document = load_run_config(run);
  const Experiment e = read_experiment(document, "config");
  Json& root = document.root;
  root["name"] = e.name + "-continued";
  root["model"] = schema<ModelConfig>().write(stages(e).back().model);
  root["model"]["trained_length"] = e.shape().train_length;
  root["train"]["phases"] = Json::array();
  return document;
}

Experiment experiment_to_train(const TrainOptions& o) {
  if (o.from.empty() && o.config.empty())
    throw ConfigError("train needs --config FILE, or --from RUN to go on with a finished run");
  if (o.from.empty()) return load_experiment(o.config, o.set);
  Document document = o.config.empty() ? continued(o.from) : load_json(o.config);
  document.root["train"]["from"] = o.from;
  for (const std::string& assignment : o.set) apply_override(document, assignment);
  return read_experiment(document, fs::path(o.config).stem().string());
}

}  // namespace

void add_train(CLI::App& app, const GlobalOptions& global, Action& action) {
  auto* command = app.add_subcommand("train", "train, then evaluate as the config says; prints the perplexity table");
  auto options = std::make_shared<TrainOptions>();
  command->add_option("--config", options->config, "experiment file (JSON; `posenc schema` describes it)");
  command->add_option("--from", options->from,
                      "a finished run to go on from, with its config unless --config gives one: longer, under an extension, …");
  command->add_option("--set", options->set, "change a value: --set /train/steps=100")->allow_extra_args(false);
  command->add_option("--out", options->out, "run directory; default runs/NAME");
  auto* resume =
      command->add_flag("--resume", options->resume, "continue the run from its last checkpoint; start it when there is none");
  command->add_flag("--overwrite", options->overwrite, "delete the run that is there")->excludes(resume);
  command->callback([options, &global, &action] {
    action = [options, &global] {
      Experiment experiment = experiment_to_train(*options);
      if (global.threads > 0) experiment.runtime.threads = global.threads;
      const RunMode mode = options->resume ? RunMode::kResume : options->overwrite ? RunMode::kOverwrite : RunMode::kNew;
      return run_train(experiment, options->out.empty() ? fs::path("runs") / experiment.name : fs::path(options->out), mode);
    };
  });
}

}  // namespace posenc
