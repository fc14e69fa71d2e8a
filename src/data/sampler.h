#pragma once
// Where the tokens of a sequence are said to stand. Sampling positions in training is an axis of its own: it goes with every
// scheme.
//
//   arange      0, 1, 2 …
//   offset      the same from a random start below `max` in training, from `max` in evaluation. Kiyono et al. 2021 (SHAPE,
//               arXiv:2109.05644)
//   randomized  sorted distinct positions below `max`, in training and in evaluation, which is averaged over `draws`. Ruoss et
//               al. 2023 (arXiv:2305.16843)
//   pose        two runs with a random gap, so that positions up to `max` are seen in training. Zhu et al. 2023
//               (arXiv:2309.10400); unlike there the text of the second run is the continuation of the first
//
// A draw is a pure function of its seed. Training draws once per micro-batch: with train.micro_batch_tokens = train.length that
// is once per sequence, as SHAPE and PoSE do; Ruoss et al. draw once per batch. No torch.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/schema.h"

namespace posenc {

struct SamplerConfig {
  std::string method = "arange";
  std::optional<std::int64_t> max;  ///< see above; set by resolve()
  std::int64_t draws = 4;           ///< of randomized, in evaluation

  void resolve(std::int64_t train_length);
  bool operator==(const SamplerConfig&) const = default;
};

template <>
const Schema<SamplerConfig>& schema<SamplerConfig>();

/// "randomized", or {"method": "randomized", "max": 2048}.
template <>
struct Codec<SamplerConfig> {
  static bool read(const Json&, SamplerConfig&, const FieldRule&, const Reader&);
  static Json write(const SamplerConfig&);
  static Json describe(const FieldRule&);
  static std::string type_name() { return "sampler name or object"; }
};

enum class SamplerUse { kTraining, kEvaluation };

/// Positions of training and of evaluation at the training length are below this.
std::int64_t position_limit(const SamplerConfig& config, std::int64_t train_length);

/// `length` increasing positions. The config is resolved, here and below.
std::vector<double> sample_positions(const SamplerConfig& config, std::int64_t length, SamplerUse use, std::uint64_t seed);

/// Whether neighbouring positions of any draw are one apart.
bool evenly_spaced(const SamplerConfig& config, SamplerUse use);

/// How many draws an evaluation averages over.
std::int64_t evaluation_draws(const SamplerConfig& config);

/// Why no window of `length` inputs can be evaluated; "" when it can.
std::string sampler_refusal(const SamplerConfig& config, std::int64_t length);

}  // namespace posenc
