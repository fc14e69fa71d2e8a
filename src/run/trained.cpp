#include "run/trained.h"

#include "run/run_dir.h"
#include "train/checkpoint.h"

namespace posenc {

std::shared_ptr<LanguageModel> build_model(const Experiment& e, const ModelConfig& config, std::int64_t vocab) {
  at::set_num_threads(1);  // parallelism is over micro-batches and windows
  return make_model(config, vocab, e.train.length, e.runtime.dtype == "float64" ? torch::kFloat64 : torch::kFloat32);
}

TrainedRun load_trained(const fs::path& directory, const Experiment& e) {
  const fs::path weights = directory / "model.safetensors";
  if (!fs::exists(weights))
    throw ConfigError(directory.string() + " holds no trained weights (model.safetensors); has the run finished?");
  TrainedRun run;
  run.tokenizer = read_run_tokenizer(directory);
  run.model = build_model(e, stages(e).back().model, run.tokenizer->vocab_size());
  load_model_tensors(read_safetensors(weights), weights.string(), *run.model);
  return run;
}

}  // namespace posenc
