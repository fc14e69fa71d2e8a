#include "data/sampler.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "core/rng.h"
#include "core/short_form.h"

namespace posenc {
namespace {

std::vector<double> run_from(std::int64_t start, std::int64_t length) {
  std::vector<double> positions(static_cast<std::size_t>(length));
  std::iota(positions.begin(), positions.end(), static_cast<double>(start));
  return positions;
}

std::int64_t below(Rng& rng, std::int64_t bound) {
  return static_cast<std::int64_t>(rng.below(static_cast<std::uint64_t>(bound)));
}

/// Floyd's algorithm: `count` distinct numbers below `bound`, ascending, every set equally likely.
std::vector<double> distinct_below(Rng& rng, std::int64_t count, std::int64_t bound) {
  std::set<std::int64_t> chosen;
  for (std::int64_t top = bound - count; top < bound; ++top) {
    const std::int64_t drawn = below(rng, top + 1);
    chosen.insert(chosen.count(drawn) ? top : drawn);
  }
  return {chosen.begin(), chosen.end()};
}

/// The authors' code: the first run of 1 to (length + 1)/2 positions from 0; the second behind a gap of 0 to max − length.
std::vector<double> two_runs(Rng& rng, std::int64_t length, std::int64_t max) {
  const std::int64_t first = 1 + below(rng, (length + 1) / 2), gap = below(rng, max - length + 1);
  std::vector<double> positions = run_from(0, length);
  for (std::int64_t i = first; i < length; ++i) positions[static_cast<std::size_t>(i)] += static_cast<double>(gap);
  return positions;
}

/// Other names in use; "noisy_rope" and the like are DeepMind's.
std::string canonical(const std::string& name) {
  for (const char* alias : {"shape", "random_offset", "shifted_ape"}) {
    if (name == alias) return "offset";
  }
  const bool noisy = name.rfind("noisy_", 0) == 0;
  return noisy || name == "randpe" || name == "rand_pos" ? "randomized" : name;
}

}  // namespace

template <>
const Schema<SamplerConfig>& schema<SamplerConfig>() {
  static const Schema<SamplerConfig> table =
      Schema<SamplerConfig>("position sampler")
          .field(
              "method", &SamplerConfig::method,
              "arange: 0, 1, 2 …; offset: from a random start (SHAPE); randomized: sorted random positions (Ruoss et al.); pose: "
              "two runs with a random gap (PoSE)")
          .choices({"arange", "offset", "randomized", "pose"})
          .field(
              "max", &SamplerConfig::max,
              "offset: starts are below it (null: 500); randomized: positions are (null: 2048); pose: the length to prepare for "
              "(null: 8 times the training length)")
          .range(1, 1 << 24)
          .field("draws", &SamplerConfig::draws, "randomized: draws an evaluation averages over")
          .range(1, 1000)
          .check([](const SamplerConfig& c, const Reader& r) {
            if (c.max && c.method == "arange") r.problem("max", "arange has no max");
          });
  return table;
}

bool Codec<SamplerConfig>::read(const Json& j, SamplerConfig& out, const FieldRule&, const Reader& reader) {
  Json object = spelled_out(j, "method");
  if (object.is_object() && object.contains("method") && object["method"].is_string()) {
    object["method"] = canonical(object["method"].get<std::string>());
  }
  return schema<SamplerConfig>().read(object, out, reader);
}

Json Codec<SamplerConfig>::write(const SamplerConfig& value) { return schema<SamplerConfig>().write(value); }

Json Codec<SamplerConfig>::describe(const FieldRule&) { return describe_short_or_long<SamplerConfig>("method"); }

void SamplerConfig::resolve(std::int64_t train_length) {
  if (max || method == "arange") return;
  max = method == "offset" ? 500 : method == "randomized" ? 2048 : 8 * train_length;
}

std::int64_t position_limit(const SamplerConfig& config, std::int64_t train_length) {
  SamplerConfig resolved = config;
  resolved.resolve(train_length);
  if (resolved.method == "arange") return train_length;
  return resolved.method == "offset" ? *resolved.max + train_length : *resolved.max;  // offset: evaluation starts at max
}

std::vector<double> sample_positions(const SamplerConfig& config, std::int64_t length, SamplerUse use, std::uint64_t seed) {
  const bool training = use == SamplerUse::kTraining;
  Rng rng(seed);
  if (config.method == "offset") return run_from(training ? below(rng, *config.max) : *config.max, length);
  if (config.method == "randomized") return distinct_below(rng, length, *config.max);
  if (config.method == "pose" && training) return two_runs(rng, length, *config.max);
  return run_from(0, length);
}

bool evenly_spaced(const SamplerConfig& config, SamplerUse use) {
  return config.method != "randomized" && (config.method != "pose" || use == SamplerUse::kEvaluation);
}

std::int64_t evaluation_draws(const SamplerConfig& config) { return config.method == "randomized" ? config.draws : 1; }

std::string sampler_refusal(const SamplerConfig& config, std::int64_t length) {
  if (config.method != "randomized" || length <= *config.max) return "";
  return "randomized positions are drawn below " + std::to_string(*config.max) + "; length " + std::to_string(length) +
         " needs as many distinct ones";
}

}  // namespace posenc
