#include "train/config.h"

namespace posenc {

template <>
const Schema<TrainPhase>& schema<TrainPhase>() {
  static const Schema<TrainPhase> table = Schema<TrainPhase>("training phase")
                                              .field("position", &TrainPhase::position, "what takes the place of model.position")
                                              .required()
                                              .field("steps", &TrainPhase::steps, "optimizer steps")
                                              .range(1, 100'000'000)
                                              .required()
                                              .field("warmup", &TrainPhase::warmup, "steps of linear warm-up")
                                              .range(0, 100'000'000)
                                              .field("lr", &TrainPhase::lr, "peak learning rate; null: that of the training")
                                              .at_least(0);
  return table;
}

template <>
const Schema<TrainConfig>& schema<TrainConfig>() {
  static const Schema<TrainConfig> table =
      Schema<TrainConfig>("training")
          .field("length", &TrainConfig::length, "input positions per training sequence")
          .range(1, 1 << 20)
          .field("batch_tokens", &TrainConfig::batch_tokens, "input positions per step; a multiple of length")
          .range(1, 1 << 26)
          .field("micro_batch_tokens", &TrainConfig::micro_batch_tokens,
                 "input positions each worker takes at once (at least one sequence); bounds memory, part of what fixes the last "
                 "bits")
          .range(1, 1 << 26)
          .field("steps", &TrainConfig::steps, "optimizer steps")
          .range(0, 100'000'000)
          .field("lr", &TrainConfig::lr, "peak learning rate")
          .at_least(0)
          .field("min_lr", &TrainConfig::min_lr, "learning rate at the end of the schedule; null: lr / 10")
          .at_least(0)
          .field("warmup", &TrainConfig::warmup, "steps of linear warm-up")
          .range(0, 100'000'000)
          .field("schedule", &TrainConfig::schedule, "after the warm-up")
          .choices({"cosine", "constant", "linear"})
          .field("weight_decay", &TrainConfig::weight_decay, "decoupled, times the learning rate")
          .at_least(0)
          .field("decay", &TrainConfig::decay, "what decays: matrices (parameters of two or more dimensions) or all")
          .choices({"matrices", "all"})
          .field("betas", &TrainConfig::betas, "AdamW's two decay rates")
          .range(0, 0.99999)
          .field("eps", &TrainConfig::eps, "AdamW's epsilon")
          .above(0)
          .field("grad_clip", &TrainConfig::grad_clip, "largest norm of the gradient; 0: no clipping")
          .at_least(0)
          .field("from", &TrainConfig::from,
                 "directory of a finished run whose weights and tokenizer this training starts from; \"\": none")
          .field("phases", &TrainConfig::phases, "then continue the same weights with another position, for so many steps each")
          .field("log_every", &TrainConfig::log_every, "steps between lines of metrics.jsonl")
          .range(1, 1'000'000)
          .field("eval_every", &TrainConfig::eval_every, "steps between validation losses at the training length; 0: none")
          .at_least(0)
          .field("checkpoint_every", &TrainConfig::checkpoint_every,
                 "steps between checkpoints; 0: only at the end or when stopped")
          .at_least(0)
          .check([](const TrainConfig& c, const Reader& r) {
            if (c.betas.size() != 2) r.problem("betas", "needs two numbers, such as [0.9, 0.95]");
          });
  return table;
}

}  // namespace posenc
