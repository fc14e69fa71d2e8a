#include "cli/command.h"
#include "cli/tensor_commands.h"
#include "run/run_dir.h"

namespace posenc {
namespace {

struct GenerateOptions {
  GenerateRequest request;
  std::string extend, prompt_file;
};

/// The run's own configuration under the extension asked for, checked by the same rules.
Experiment experiment_under(const fs::path& run, const std::string& extend) {
  Document document = load_run_config(run);
  document.root["eval"]["extensions"] = extend.empty() ? Json::array() : Json::array({parse_extension(extend)});
  return read_experiment(document, "generate");
}

}  // namespace

void add_generate(CLI::App& app, const GlobalOptions& global, Action& action) {
  auto* command = app.add_subcommand("generate", "continue a text with a trained model");
  auto options = std::make_shared<GenerateOptions>();
  GenerateRequest& request = options->request;
  command->add_option("run", request.run, "run directory")->required();
  command->add_option("--prompt", request.prompts, "text to continue; may be given several times")->allow_extra_args(false);
  command->add_option("--prompt-file", options->prompt_file, "a file with the text to continue");
  command->add_option("--tokens", request.tokens, "length of the continuation")
      ->check(CLI::Range(1, 1 << 24))
      ->capture_default_str();
  command->add_option("--temperature", request.sampling.temperature, "0: always the likeliest token; 1: as the model predicts")
      ->check(CLI::Range(0.0, 100.0))
      ->capture_default_str();
  command->add_option("--top-k", request.sampling.top_k, "draw from the k likeliest tokens; 0: from all")
      ->check(CLI::Range(0, 1 << 24));
  command->add_option("--top-p", request.sampling.top_p, "draw from the likeliest tokens that reach this probability")
      ->check(CLI::Range(0.0, 1.0));
  command->add_option("--seed", request.seed, "of the draws")->capture_default_str();
  command->add_option("--extend", options->extend, "an extension: yarn, or {\"method\":\"pi\",\"factor\":4}");
  command->add_option("--format", request.format, "text: the continuation alone, as it comes; json")
      ->check(CLI::IsMember({"text", "json"}));
  command->callback([options, &global, &action] {
    action = [options, &global] {
      GenerateRequest asked = options->request;
      if (!options->prompt_file.empty()) asked.prompts.push_back(read_file(options->prompt_file));
      if (asked.prompts.empty()) throw ConfigError("generate needs a text to continue: --prompt TEXT or --prompt-file FILE");
      Experiment experiment = experiment_under(asked.run, options->extend);
      if (global.threads > 0) experiment.runtime.threads = global.threads;
      return run_generate(asked, experiment);
    };
  });
}

}  // namespace posenc
