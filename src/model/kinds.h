#pragma once
// The kinds of language model that model.kind names, each in a file of its own. make_model (language_model.h) chooses.

#include <memory>

#include "model/language_model.h"

namespace posenc {

/// The pre-norm decoder-only transformer.
std::shared_ptr<LanguageModel> make_transformer(const ModelConfig& config, std::int64_t vocab, const ModelShape& shape);

/// Stacked LSTMs or GRUs.
std::shared_ptr<LanguageModel> make_recurrent(const ModelConfig& config, std::int64_t vocab);

/// Gated causal convolutions with growing dilations.
std::shared_ptr<LanguageModel> make_convolutional(const ModelConfig& config, std::int64_t vocab);

}  // namespace posenc
