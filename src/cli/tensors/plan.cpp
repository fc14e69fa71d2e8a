#include <fmt/format.h>

#include "cli/command.h"
#include "cli/tensor_commands.h"
#include "core/machine.h"
#include "data/dataset.h"
#include "model/language_model.h"
#include "run/blas.h"
#include "run/experiment.h"

namespace posenc {
namespace {

/// Estimates, in bytes and seconds.
struct Plan {
  std::int64_t parameters = 0, memory = 0;
  double train_flops = 0, train_seconds = 0, sgemm_gflops = 0;
  int threads = 1;
};

/// LibTorch itself, loaded and with its first buffers.
constexpr std::int64_t kLibraryBytes = std::int64_t{250} << 20;
/// Share of sgemm's rate that a training step of a small model reaches on one thread; a rough figure, measured with the default
/// model.
constexpr double kStepEfficiency = 0.25;

Plan make_plan(const Experiment& e) {
  Plan p;
  const Dataset dataset = load_dataset(e.data);
  const auto model = make_model(e.model, dataset.tokenizer->vocab_size(), e.train.length);
  p.parameters = model->parameter_count();
  p.threads = worker_threads(e.runtime);
  const std::int64_t element = e.runtime.dtype == "float64" ? 8 : 4;
  const std::int64_t rows = e.train.micro_batch() * e.train.length;
  // Kept for backward per position and layer: about 20 widths of d_model, 3 of d_ff, the logits and weights of every head; then
  // the output logits.
  const std::int64_t per_position =
      e.model.layers * (20 * e.model.d_model + 3 * *e.model.d_ff + 3 * e.model.heads * e.train.length) +
      4 * dataset.tokenizer->vocab_size();
  const std::int64_t tokens =
      static_cast<std::int64_t>(dataset.train.tokens.size() + dataset.valid.tokens.size() + dataset.test.tokens.size());
  p.memory =
      kLibraryBytes + p.parameters * element * (4 + p.threads) + p.threads * rows * per_position * element + 2 * tokens * 4;
  const double attention = 12.0 * static_cast<double>(e.model.layers * e.model.heads * *e.model.head_dim * e.train.length);
  p.train_flops =
      static_cast<double>(e.train.total_steps() * e.train.batch_tokens) * (6.0 * static_cast<double>(p.parameters) + attention);
  p.sgemm_gflops = sgemm_gflops();
  p.train_seconds = p.train_flops / (p.sgemm_gflops * 1e9 * kStepEfficiency * p.threads);
  return p;
}

}  // namespace

int run_plan(const Experiment& e, const std::string& format) {
  const Plan p = make_plan(e);
  const Json config = resolved_json(e);
  if (format == "json") {
    const Json json = {{"parameters", p.parameters},
                       {"memory_bytes_estimate", p.memory},
                       {"available_bytes", available_memory()},
                       {"train_flops", p.train_flops},
                       {"train_seconds_estimate", p.train_seconds},
                       {"threads", p.threads},
                       {"sgemm_gflops", p.sgemm_gflops},
                       {"config", config}};
    deliver(dump_json(json), "");
    return 0;
  }
  const double mib = 1024.0 * 1024.0;
  deliver(fmt::format("parameters         {}\n"
                      "memory (estimate)  {:.0f} MiB of {:.0f} MiB available\n"
                      "training           {} steps, {} tokens, {:.3g} FLOP\n"
                      "time (estimate)    {:.0f} s on {} threads at {:.0f} GFLOP/s of sgemm each\n\n{}",
                      p.parameters, static_cast<double>(p.memory) / mib, static_cast<double>(available_memory()) / mib,
                      e.train.total_steps(), e.train.total_steps() * e.train.batch_tokens, p.train_flops, p.train_seconds,
                      p.threads, p.sgemm_gflops, dump_json(config)),
          "");
  return 0;
}

}  // namespace posenc
