#pragma once
// The training loop: steps from wherever a checkpoint left off to the last, logging, validating and saving on the way. Everything
// that leaves the process (files, progress, signals) goes through the hooks, so that the loop itself is what it says.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "model/language_model.h"
#include "train/batch_source.h"
#include "train/config.h"
#include "train/optimizer.h"

namespace posenc {

/// One logged step.
struct StepMetrics {
  std::int64_t step = 0;  ///< optimizer steps done, this one included
  double loss = 0, lr = 0, grad_norm = 0, tokens_per_second = 0;
  std::optional<double> valid_loss;
};

enum class TrainStatus { kFinished, kStopped, kDiverged };

struct TrainOutcome {
  TrainStatus status = TrainStatus::kFinished;
  std::int64_t step = 0;  ///< steps done
  std::string reason;     ///< why it diverged, with the step
};

struct TrainHooks {
  std::function<void(const StepMetrics&)> log;                   ///< every log_every steps, and at the last
  std::function<void(std::int64_t step, double loss)> progress;  ///< every step
  std::function<void(std::int64_t step)> checkpoint;             ///< state after `step` steps is worth keeping
  std::function<bool()> stop;                                    ///< true: save and leave after the current step
  std::function<double()> validate;                              ///< validation loss, for eval_every
};

struct TrainSettings {
  TrainConfig config;           ///< resolved
  std::int64_t first_step = 0;  ///< steps done before this training began: where its data and its metrics go on
  std::uint64_t seed = 1;
  double dropout = 0;
  int threads = 1;
  AttentionPath attention = AttentionPath::kAuto;
};

/// A loss above this multiple of the first one for kDivergedSteps steps in a row counts as diverged, as does any NaN or infinity.
inline constexpr double kDivergedLoss = 3;
inline constexpr std::int64_t kDivergedSteps = 50;

/// State the loop carries over a resume besides model and optimizer.
struct LoopState {
  std::int64_t step = 0;
  double first_loss = 0;
  std::int64_t bad_steps = 0;
};

TrainOutcome train(const LanguageModel& model, AdamW& optimizer, const BatchSource& batches, const TrainSettings& settings,
                   LoopState& state, const TrainHooks& hooks);

}  // namespace posenc
