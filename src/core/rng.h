#pragma once
// Random numbers as pure functions of a seed and a name. A stream is named for what it draws ("init/layers.0.qkv", "batches"), so
// that adding a consumer changes nothing for the others, and counter-based, so that nothing has to be stored to resume.

#include <cstdint>
#include <string_view>

namespace posenc {

/// A 64-bit seed for the stream `name` (and index) of an experiment's seed. Uses all 64 bits of `seed`.
std::uint64_t derive_seed(std::uint64_t seed, std::string_view name, std::uint64_t index = 0);

/// SplitMix64 (Steele, Lea, Flood 2014): the n-th output is a bijective mix of seed + n·γ.
class Rng {
 public:
  explicit Rng(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next();
  /// Uniform in [0, bound), without modulo bias; bound ≥ 1.
  std::uint64_t below(std::uint64_t bound);
  /// Uniform in [0, 1), 53 bits.
  double uniform();

 private:
  std::uint64_t state_;
};

/// A keyed permutation of [0, n): position i of the shuffled order without storing it. A balanced Feistel network with cycle
/// walking.
class Permutation {
 public:
  Permutation(std::uint64_t n, std::uint64_t key);
  std::uint64_t operator()(std::uint64_t i) const;

 private:
  std::uint64_t n_, key_, half_bits_;
};

}  // namespace posenc
