#include "train/loop.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "core/rng.h"
#include "train/schedule.h"
#include "train/step.h"

namespace posenc {
namespace {

/// Seconds since the last call.
class Stopwatch {
 public:
  double lap() {
    const auto now = std::chrono::steady_clock::now();
    const double seconds = std::chrono::duration<double>(now - last_).count();
    last_ = now;
    return seconds;
  }

 private:
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

/// Why the run must stop after this step, or "".
std::string divergence(const StepResult& result, LoopState& state) {
  if (!result.finite)
    return std::string(std::isfinite(result.loss) ? "gradient" : "loss") + " is not finite at step " +
           std::to_string(state.step + 1);
  if (state.step == 0) state.first_loss = result.loss;
  state.bad_steps = result.loss > kDivergedLoss * state.first_loss ? state.bad_steps + 1 : 0;
  if (state.bad_steps < kDivergedSteps) return "";
  return "loss above " + std::to_string(static_cast<int>(kDivergedLoss)) + " times the first for " +
         std::to_string(kDivergedSteps) + " steps, at step " + std::to_string(state.step + 1);
}

bool all_finite(const std::vector<Tensor>& parameters) {
  return std::all_of(parameters.begin(), parameters.end(), [](const Tensor& p) { return torch::isfinite(p).all().item<bool>(); });
}

}  // namespace

TrainOutcome train(const LanguageModel& model, AdamW& optimizer, const BatchSource& batches, const TrainSettings& settings,
                   LoopState& state, const TrainHooks& hooks) {
  const TrainConfig& c = settings.config;
  StepOptions options;
  options.grad_clip = c.grad_clip;
  options.micro_batch = c.micro_batch();
  options.threads = settings.threads;
  options.attention = settings.attention;
  options.dropout = settings.dropout;
  Stopwatch watch;
  std::int64_t positions = 0, last_saved = -1;  // positions: since the last log
  const std::int64_t end = settings.first_step + c.steps;
  while (state.step < end) {
    const Batch batch = batches(state.step);
    options.lr = learning_rate(c, state.step - settings.first_step);
    options.dropout_seed = derive_seed(settings.seed, "dropout", static_cast<std::uint64_t>(state.step));
    options.position_seed = derive_seed(settings.seed, "positions", static_cast<std::uint64_t>(state.step));
    const StepResult result = train_step(model, optimizer, batch.inputs, batch.targets, options);
    const std::string reason = divergence(result, state);
    if (!reason.empty()) return {TrainStatus::kDiverged, state.step, reason};
    ++state.step;
    positions += batch.positions;
    hooks.progress(state.step, result.loss);
    const bool last = state.step == end;
    const bool validates = c.eval_every > 0 && state.step % c.eval_every == 0;
    if (last || validates || state.step % c.log_every == 0) {
      const double rate = static_cast<double>(std::exchange(positions, 0)) / watch.lap();
      StepMetrics metrics{state.step, result.loss, options.lr, result.grad_norm, rate, std::nullopt};
      if (validates) metrics.valid_loss = hooks.validate();
      hooks.log(metrics);
      watch.lap();
    }
    const bool stop = hooks.stop();
    if (last || stop || (c.checkpoint_every > 0 && state.step % c.checkpoint_every == 0)) {
      // An update can overflow weights although loss and gradient were finite: what is kept must be of use.
      if (!all_finite(model.parameters()))
        return {TrainStatus::kDiverged, state.step, "a weight is not finite after step " + std::to_string(state.step)};
      hooks.checkpoint(state.step);
      last_saved = state.step;
    }
    if (stop && !last) return {TrainStatus::kStopped, state.step, ""};
  }
  if (last_saved < 0 && state.step == 0) hooks.checkpoint(0);  // a run of no steps still leaves its weights
  return {TrainStatus::kFinished, state.step, ""};
}

}  // namespace posenc
