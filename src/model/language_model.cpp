#include "model/language_model.h"

#include <ATen/ThreadLocalState.h>

#include <algorithm>

#include "core/parallel.h"
#include "model/kinds.h"

namespace posenc {

std::int64_t LanguageModel::parameter_count() const {
  std::int64_t count = 0;
  for (const Tensor& p : parameters()) count += p.numel();
  return count;
}

std::shared_ptr<LanguageModel> make_model(const ModelConfig& config, std::int64_t vocab, std::int64_t train_length,
                                          torch::ScalarType dtype) {
  const bool attends = config.kind == "transformer";
  auto model = attends                 ? make_transformer(config, vocab, config.shape(train_length))
               : config.kind == "conv" ? make_convolutional(config, vocab)
                                       : make_recurrent(config, vocab);
  model->to(dtype);
  return model;
}

Tensor target_nll(const LanguageModel& model, const Tensor& hidden, const Tensor& targets, int threads) {
  constexpr std::int64_t kChunkRows = 4096;
  std::vector<Tensor> parts(static_cast<std::size_t>((hidden.size(0) + kChunkRows - 1) / kChunkRows));
  const at::ThreadLocalState here;
  parallel_for(static_cast<std::int64_t>(parts.size()), threads, [&](std::int64_t i) {
    const at::ThreadLocalStateGuard as_here(here);
    at::set_num_threads(1);
    const std::int64_t begin = i * kChunkRows, end = std::min(begin + kChunkRows, hidden.size(0));
    const Tensor log_p = torch::log_softmax(model.logits(hidden.slice(0, begin, end)), -1);  // [rows, V]
    parts[static_cast<std::size_t>(i)] =
        -log_p.gather(1, targets.slice(0, begin, end).unsqueeze(1)).squeeze(1).to(torch::kFloat64);  // [rows]
  });
  return torch::cat(parts);
}

}  // namespace posenc
