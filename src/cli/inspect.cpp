#include "cli/command.h"
#include "cli/tensor_commands.h"
#include "run/run_dir.h"

namespace posenc {
namespace {

struct InspectOptions {
  std::string target, format = "text";
  std::vector<std::string> set, probes;
};

/// A scheme by its name in the default model, or the configuration of a run.
Experiment inspected(const InspectOptions& o) {
  Document document =
      is_run(o.target) ? load_run_config(o.target) : Document{{{"model", {{"position", o.target}}}}, "inspect " + o.target, {}};
  for (const std::string& assignment : o.set) apply_override(document, assignment);
  return read_experiment(document, "inspect");
}

}  // namespace

void add_inspect(CLI::App& app, const GlobalOptions& global, Action& action) {
  auto* command =
      app.add_subcommand("inspect", "what a scheme does by distance, or how a trained model uses the order of its context");
  auto options = std::make_shared<InspectOptions>();
  command->add_option("target", options->target, "a scheme, or a run directory")->required();
  command->add_option("--set", options->set, "change a value: --set /model/position/base=500")->allow_extra_args(false);
  command
      ->add_option("--probe", options->probes,
                   "distance: bias and rotation by distance; order: what another order of the context changes")
      ->check(CLI::IsMember({"distance", "order"}))
      ->allow_extra_args(false);
  command->add_option("--format", options->format, "text or json")->check(CLI::IsMember({"text", "json"}));
  command->callback([options, &global, &action] {
    action = [options, &global] {
      Experiment experiment = inspected(*options);
      if (global.threads > 0) experiment.runtime.threads = global.threads;
      InspectRequest request{options->target, is_run(options->target), options->probes, options->format};
      if (request.probes.empty())
        request.probes = request.is_run ? std::vector<std::string>{"order"} : std::vector<std::string>{"distance", "order"};
      return run_inspect(request, experiment);
    };
  });
}

}  // namespace posenc
