#include "eval/generate.h"

#include "cli/command.h"
#include "cli/tensor_commands.h"
#include "run/experiment.h"
#include "run/signals.h"
#include "run/trained.h"

namespace posenc {

int run_generate(const GenerateRequest& request, const Experiment& e) {
  const TrainedRun run = load_trained(request.run, e);
  std::vector<std::vector<std::int32_t>> prompts;
  for (const std::string& text : request.prompts) prompts.push_back(run.tokenizer->encode(text, "the prompt"));
  const auto extension = e.eval.extensions.empty() ? nullptr : make_extension(e.eval.extensions[0]);
  GenerateSettings settings;
  settings.tokens = request.tokens;
  settings.sampling = request.sampling;
  settings.seed = static_cast<std::uint64_t>(request.seed);
  settings.extension = extension.get();
  settings.attention = attention_path(e.runtime.attention);
  settings.threads = worker_threads(e.runtime);
  const bool streams = request.format == "text" && prompts.size() == 1;
  const auto continuations = generate(*run.model, prompts, settings, [&](std::size_t, std::int32_t token) {
    if (stop_requested()) throw Error(ExitCode::kStopped, "stopped by a signal");
    if (streams) deliver(run.tokenizer->decode({token}), "");
  });
  if (streams) deliver("\n", "");
  Json all = Json::array();
  for (std::size_t i = 0; i < prompts.size() && !streams; ++i) {
    const std::string text = run.tokenizer->decode(continuations[i]);
    if (request.format == "text") deliver(text + "\n", "");
    all.push_back({{"prompt", request.prompts[i]}, {"text", text}, {"tokens", continuations[i]}});
  }
  if (request.format == "json") deliver(dump_json(all), "");
  return 0;
}

}  // namespace posenc
