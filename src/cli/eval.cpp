#include "cli/command.h"
#include "cli/tensor_commands.h"
#include "run/run_dir.h"

namespace posenc {
namespace {

struct EvalOptions {
  std::string run, out, data, split;
  std::vector<std::int64_t> lengths;
  std::vector<std::string> extend, protocols, set;
};

/// The run's own configuration with the changes asked for, as one document, so that the same rules check it.
Experiment changed_experiment(const EvalOptions& o) {
  Document document = load_run_config(o.run);
  Json& eval = document.root["eval"];
  const bool task = document.root["data"].value("kind", "text") == "task";
  if (!o.lengths.empty() && task) {
    document.root["data"]["test_lengths"] = o.lengths;
  } else if (!o.lengths.empty()) {
    eval["lengths"] = o.lengths;
    eval["targets"] = nullptr;  // derived from the lengths again
  }
  if (!o.protocols.empty()) eval["protocols"] = o.protocols;
  if (!o.split.empty()) eval["split"] = o.split;
  if (!o.data.empty()) document.root["data"]["path"] = o.data;
  for (const std::string& extension : o.extend) eval["extensions"].push_back(parse_extension(extension));
  for (const std::string& assignment : o.set) apply_override(document, assignment);
  return read_experiment(document, "eval");
}

}  // namespace

void add_eval(CLI::App& app, const GlobalOptions& global, Action& action) {
  auto* command = app.add_subcommand("eval", "evaluate a finished run again: other lengths, extensions, protocols or text");
  auto options = std::make_shared<EvalOptions>();
  command->add_option("run", options->run, "run directory")->required();
  command->add_option("--lengths", options->lengths, "comma-separated input lengths, or test lengths of a task")->delimiter(',');
  command->add_option("--extend", options->extend, "an extension: pi, or {\"method\":\"pi\",\"factor\":4}")
      ->allow_extra_args(false);
  command->add_option("--protocol", options->protocols, "fixed_target, nonoverlapping or sliding")->allow_extra_args(false);
  command->add_option("--data", options->data, "a text file, split 90/5/5, instead of the run's corpus");
  command->add_option("--split", options->split, "test, valid or train");
  command->add_option("--set", options->set, "change a value: --set /eval/windows=64")->allow_extra_args(false);
  command->add_option("--out", options->out, "write results.json here as well");
  command->callback([options, &global, &action] {
    action = [options, &global] {
      Experiment experiment = changed_experiment(*options);
      if (global.threads > 0) experiment.runtime.threads = global.threads;
      return run_eval(options->run, experiment, options->out);
    };
  });
}

}  // namespace posenc
