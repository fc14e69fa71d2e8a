#pragma once
// The loss of a trained model at each length, protocol and extension, with its error: one Cell each. A scheme that cannot
// represent a length is refused with the reason; nothing is clamped.

#include <functional>
#include <string>
#include <vector>

#include "core/results.h"
#include "core/statistics.h"
#include "data/dataset.h"
#include "eval/config.h"
#include "eval/protocols.h"
#include "model/language_model.h"

namespace posenc {

/// Inputs per forward: enough to fill the kernels, few enough to stay in cache. One window at least.
inline constexpr std::int64_t kGroupTokens = 2048;

/// Longer windows are scored one at a time.
inline constexpr std::int64_t kLongWindow = 8192;

struct EvalSettings {
  EvalConfig config;       ///< resolved
  std::uint64_t seed = 1;  ///< of random positions
  int threads = 1;
  AttentionPath attention = AttentionPath::kAuto;
  std::function<bool()> stop;                                ///< true: leave with Error(kStopped); may be empty
  std::function<void(const std::string&, double)> progress;  ///< what is being scored, share done; may be empty
};

struct Evaluation {
  std::vector<Cell> cells;
  std::vector<PositionBucket> by_position;
  std::string protocol_hash;
};

/// Scores `config.split` of the dataset. ConfigError when the split is shorter than the longest window.
Evaluation evaluate(const LanguageModel& model, const Dataset& dataset, const EvalSettings& settings);

/// −log p of every scored target, window by window. Windows are computed in fixed groups on `threads` threads.
std::vector<std::vector<double>> score_windows(const LanguageModel& model, const std::vector<std::int32_t>& tokens,
                                               const std::vector<EvalWindow>& windows, const Extension* extension,
                                               const EvalSettings& settings);

/// Everything that changes a number without being the model: split and its digest, tokenizer, windows, targets, stride, the
/// absence of a BOS token.
std::string protocol_hash(const Dataset& dataset, const EvalConfig& config);

/// Mean NLL of the first `tokens` tokens of a split in windows of `length` (for validation during training).
double mean_loss(const LanguageModel& model, const Split& split, std::int64_t length, std::int64_t tokens,
                 const EvalSettings& settings);

}  // namespace posenc
