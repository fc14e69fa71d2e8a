#include "eval/generate.h"

#include <algorithm>
#include <map>

#include "core/error.h"
#include "core/rng.h"

namespace posenc {
namespace {

using Tokens = std::vector<std::int32_t>;
using Emit = std::function<void(std::size_t, std::int32_t)>;

/// [B, T] int64
Tensor as_tensor(const std::vector<Tokens>& prompts, const std::vector<std::size_t>& rows) {
  std::vector<Tensor> all;
  for (const std::size_t row : rows) all.push_back(torch::tensor(prompts[row], torch::kInt64));
  return torch::stack(all);
}

/// Continues the prompts `rows`, all of one length.
void decode(const LanguageModel& model, const std::vector<Tokens>& prompts, const std::vector<std::size_t>& rows,
            const GenerateSettings& settings, const Emit& emit, std::vector<Tokens>& out) {
  const torch::InferenceMode inference;
  at::set_num_threads(1);
  KvCache cache;
  Pass pass;
  pass.attention = settings.attention;
  pass.extension = settings.extension;
  pass.threads = settings.threads;
  pass.cache = &cache;
  Tensor next = as_tensor(prompts, rows);  // [B, T]
  const std::int64_t length = next.size(1);
  pass.window = length + settings.tokens;
  Tensor hidden;  // [B, T, C] of the last forward
  for (std::int64_t begin = 0; begin < length; begin += settings.prefill)
    hidden = model.hidden(next.slice(1, begin, std::min(begin + settings.prefill, length)), pass);
  std::vector<Rng> rngs;
  for (const std::size_t row : rows) rngs.emplace_back(derive_seed(settings.seed, "generate", row));
  for (std::int64_t t = 0; t < settings.tokens; ++t) {
    if (t > 0) hidden = model.hidden(next, pass);
    const Tensor logits = model.logits(hidden.select(1, -1)).to(torch::kFloat32).contiguous();  // [B, V]
    next = torch::empty({static_cast<std::int64_t>(rows.size()), 1}, torch::kInt64);
    for (std::size_t b = 0; b < rows.size(); ++b) {
      const auto* first = logits.data_ptr<float>() + static_cast<std::int64_t>(b) * logits.size(1);
      const std::int32_t token = sample_token({first, first + logits.size(1)}, settings.sampling, rngs[b]);
      next.data_ptr<std::int64_t>()[b] = token;
      out[rows[b]].push_back(token);
      if (emit) emit(rows[b], token);
    }
  }
}

}  // namespace

std::vector<Tokens> generate(const LanguageModel& model, const std::vector<Tokens>& prompts, const GenerateSettings& settings,
                             const Emit& emit) {
  std::map<std::size_t, std::vector<std::size_t>> by_length;
  for (std::size_t row = 0; row < prompts.size(); ++row) by_length[prompts[row].size()].push_back(row);
  for (const auto& [length, rows] : by_length) {
    if (length == 0) throw ConfigError("a prompt needs at least one token");
    const std::string refusal = model.refusal(static_cast<std::int64_t>(length) + settings.tokens, settings.extension);
    if (!refusal.empty()) throw ConfigError("prompt and continuation: " + refusal);
  }
  std::vector<Tokens> continuations(prompts.size());
  for (const auto& [length, rows] : by_length) decode(model, prompts, rows, settings, emit, continuations);
  return continuations;
}

}  // namespace posenc
