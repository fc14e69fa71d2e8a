#pragma once
// Text from a trained model, token by token with a KV cache. What is decoded is what one forward over prompt and continuation
// would say: positions and extensions are those of a window of that length from the first token on.
//
//   generate(model, {prompt}, settings, [](std::size_t prompt, std::int32_t token) { … });

#include <cstdint>
#include <functional>
#include <vector>

#include "eval/sampling.h"
#include "model/language_model.h"

namespace posenc {

struct GenerateSettings {
  std::int64_t tokens = 200;  ///< of each continuation
  Sampling sampling;
  std::uint64_t seed = 1;
  const Extension* extension = nullptr;
  AttentionPath attention = AttentionPath::kAuto;
  int threads = 1;
  std::int64_t prefill = 512;  ///< prompt tokens per forward
};

/// The continuation of every prompt. Prompts of the same length are decoded together; no prompt is padded, so that none is at
/// other positions than alone, and each has draws of its own. `emit` gets every token as soon as it is drawn; it may be empty.
/// ConfigError for an empty prompt, and where the model cannot represent prompt and continuation.
std::vector<std::vector<std::int32_t>> generate(const LanguageModel& model, const std::vector<std::vector<std::int32_t>>& prompts,
                                                const GenerateSettings& settings,
                                                const std::function<void(std::size_t, std::int32_t)>& emit = {});

}  // namespace posenc
