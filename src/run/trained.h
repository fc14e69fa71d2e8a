#pragma once
// A finished run, ready to be used again.

#include <filesystem>
#include <memory>

#include "config/experiment.h"
#include "data/tokenizer.h"
#include "model/language_model.h"

namespace posenc {

struct TrainedRun {
  std::shared_ptr<Tokenizer> tokenizer;
  std::shared_ptr<LanguageModel> model;
};

/// A model as the experiment's runtime section wants it, parameters not yet filled.
std::shared_ptr<LanguageModel> build_model(const Experiment& experiment, const ModelConfig& config, std::int64_t vocab);

/// The weights and the tokenizer in a run's directory, for the model that `experiment` ends its training with. ConfigError when the
/// directory holds no weights, DataError when they are not that model's.
TrainedRun load_trained(const std::filesystem::path& directory, const Experiment& experiment);

}  // namespace posenc
