#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "cli/command.h"
#include "cli/tensor_commands.h"
#include "eval/longrope_search.h"
#include "run/experiment.h"
#include "run/progress.h"
#include "run/trained.h"

namespace posenc {
namespace {

LongRopeSettings settings_for(const SearchRequest& request, const Experiment& e) {
  const ModelConfig model = stages(e).back().model;
  const Json& parameters = model.position.parameters;
  LongRopeSettings settings;
  settings.length = request.length;
  settings.train_length = model.shape(e.train.length).train_length;
  settings.pairs = static_cast<std::int64_t>(static_cast<double>(*model.head_dim) * parameters.value("partial", 1.0)) / 2;
  settings.base = parameters.value("base", 10000.0);
  settings.population = request.population;
  settings.iterations = request.iterations;
  settings.windows = request.windows;
  settings.seed = static_cast<std::uint64_t>(request.seed);
  return settings;
}

}  // namespace

int run_search(const SearchRequest& request, const Experiment& e) {
  const TrainedRun run = load_trained(request.run, e);
  const Dataset dataset = load_dataset(e.data, run.tokenizer);
  const LongRopeSettings settings = settings_for(request, e);
  LongRopeSearch search(*run.model, dataset.valid, settings, eval_settings(e));
  if (request.resume && fs::exists(request.out)) search.restore(load_json(request.out).root, request.out.string());
  {
    Progress bar("search at " + std::to_string(request.length));
    while (!search.finished()) {
      search.step();
      write_file_atomic(request.out, dump_json(search.state()));
      bar.update(static_cast<double>(search.iteration()) / static_cast<double>(settings.iterations),
                 fmt::format("generation {} nll {:.4f}", search.iteration(), search.best_nll()));
    }
  }
  for (const auto& [name, nll] : search.seeds().items())
    spdlog::info("nll of the validation split at {}: {} {:.4f}", request.length, name, nll.get<double>());
  spdlog::info("nll of the validation split at {}: best {:.4f}", request.length, search.best_nll());
  const double scale = static_cast<double>(settings.length) / static_cast<double>(settings.train_length);
  deliver(dump_json_line(longrope_extension(search.best(), scale)) + "\n", "");
  return 0;
}

}  // namespace posenc
