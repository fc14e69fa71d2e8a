#include "train/step.h"

#include <cmath>
#include <condition_variable>
#include <mutex>

#include "core/parallel.h"
#include "core/rng.h"
#include "model/fused_rows.h"

namespace posenc {
namespace {

/// Adds up what the pieces bring in the order of the pieces, whichever thread finishes first; holds one running sum.
class OrderedSum {
 public:
  void add(std::int64_t piece, double loss, std::vector<Tensor> grads) {
    std::unique_lock lock(mutex_);
    turn_.wait(lock, [&] { return next_ == piece || failed_; });
    if (failed_) return;
    const torch::NoGradGuard no_grad;
    loss_ += loss;
    if (piece == 0) {
      grads_ = std::move(grads);
    } else {
      for (std::size_t i = 0; i < grads_.size(); ++i) grads_[i].add_(grads[i]);
    }
    ++next_;
    turn_.notify_all();
  }
  /// Lets the others go when a piece will never come.
  void fail() {
    const std::lock_guard lock(mutex_);
    failed_ = true;
    turn_.notify_all();
  }
  double loss() const { return loss_; }
  const std::vector<Tensor>& grads() const { return grads_; }

 private:
  std::mutex mutex_;
  std::condition_variable turn_;
  std::int64_t next_ = 0;
  bool failed_ = false;
  double loss_ = 0;
  std::vector<Tensor> grads_;
};

/// Σ NLL over the scored targets [b, T]. Positions after the last of them are not computed, nor logits of others.
Tensor summed_loss(const LanguageModel& model, const Tensor& inputs, const Tensor& targets, const Pass& pass) {
  const Tensor scored = targets >= 0;  // [b, T]
  if (scored.all().item<bool>()) {
    const Tensor logits = model.logits(model.hidden(inputs, pass)).flatten(0, 1);  // [b·T, V]
    return nll_sum(logits, targets.flatten());
  }
  const std::int64_t length = scored.any(0).nonzero().max().item<std::int64_t>() + 1;
  const Tensor at = scored.slice(1, 0, length).flatten().nonzero().squeeze(1);         // [n]
  const Tensor hidden = model.hidden(inputs.slice(1, 0, length), pass).flatten(0, 1);  // [b·length, C]
  const Tensor logits = model.logits(hidden.index_select(0, at));                      // [n, V]
  return nll_sum(logits, targets.slice(1, 0, length).flatten().index_select(0, at));
}

/// `scored`: targets of the whole step.
void add_piece(const LanguageModel& model, const std::vector<Tensor>& parameters, const Tensor& inputs, const Tensor& targets,
               std::int64_t scored, std::int64_t piece, const StepOptions& options, OrderedSum& sum) {
  at::set_num_threads(1);  // per thread: parallelism is over pieces
  const std::int64_t begin = piece * options.micro_batch, end = std::min(begin + options.micro_batch, inputs.size(0));
  Pass pass;
  pass.attention = options.attention;
  pass.training = true;
  pass.position_seed = derive_seed(options.position_seed, "positions", static_cast<std::uint64_t>(piece));
  if (options.dropout > 0)
    pass.dropout = torch::make_generator<torch::CPUGeneratorImpl>(
        derive_seed(options.dropout_seed, "dropout", static_cast<std::uint64_t>(piece)));
  const Tensor loss =
      summed_loss(model, inputs.slice(0, begin, end), targets.slice(0, begin, end), pass) / static_cast<double>(scored);
  std::vector<Tensor> grads =
      torch::autograd::grad({loss}, parameters, {}, /*retain_graph=*/false, /*create_graph=*/false, /*allow_unused=*/true);
  for (std::size_t i = 0; i < grads.size(); ++i)
    grads[i] = grads[i].defined() ? grads[i].contiguous() : torch::zeros_like(parameters[i]);
  sum.add(piece, loss.item<double>(), std::move(grads));
}

}  // namespace

StepResult train_step(const LanguageModel& model, AdamW& optimizer, const Tensor& inputs, const Tensor& targets,
                      const StepOptions& options) {
  const std::vector<Tensor> parameters = model.parameters();
  const std::int64_t pieces = (inputs.size(0) + options.micro_batch - 1) / options.micro_batch;
  const auto scored = (targets >= 0).sum().item<std::int64_t>();
  OrderedSum sum;
  parallel_for(pieces, options.threads, [&](std::int64_t piece) {
    try {
      add_piece(model, parameters, inputs, targets, scored, piece, options, sum);
    } catch (...) {
      sum.fail();
      throw;
    }
  });
  StepResult result{sum.loss(), gradient_norm(sum.grads()), true};
  result.finite = std::isfinite(result.loss) && std::isfinite(result.grad_norm);
  if (!result.finite) return result;
  const bool clip = options.grad_clip > 0 && result.grad_norm > options.grad_clip;
  optimizer.step(sum.grads(), options.lr, clip ? options.grad_clip / (result.grad_norm + 1e-6) : 1.0);  // torch's clip_grad_norm_
  model.constrain();
  return result;
}

}  // namespace posenc
