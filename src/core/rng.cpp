#include "core/rng.h"

#include <bit>

#include "core/error.h"

namespace posenc {
namespace {

constexpr std::uint64_t kGamma = 0x9e3779b97f4a7c15;  // 2^64 / golden ratio, odd
constexpr int kFeistelRounds = 8;

/// SplitMix64's finaliser: a bijection of 64 bits.
std::uint64_t mix(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

std::uint64_t fnv1a(std::string_view bytes) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const unsigned char byte : bytes) hash = (hash ^ byte) * 0x100000001b3;
  return hash;
}

}  // namespace

// A bijection in each of seed, hash and index while the other two stand still: no two seeds share a stream.
std::uint64_t derive_seed(std::uint64_t seed, std::string_view name, std::uint64_t index) {
  return mix(mix(mix(seed + kGamma) ^ fnv1a(name)) + kGamma * index);
}

std::uint64_t Rng::next() { return mix(state_ += kGamma); }

std::uint64_t Rng::below(std::uint64_t bound) {
  POSENC_CHECK(bound >= 1, "an empty range has no number");
  const std::uint64_t rejected = -bound % bound;  // 2^64 mod bound: the values that would favour small results
  std::uint64_t x = next();
  while (x < rejected) x = next();
  return x % bound;
}

double Rng::uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }

Permutation::Permutation(std::uint64_t n, std::uint64_t key) : n_(n), key_(mix(key + kGamma)) {
  POSENC_CHECK(n >= 1, "a permutation of nothing");
  const auto bits = static_cast<std::uint64_t>(std::bit_width(n - 1));
  half_bits_ = bits < 2 ? 1 : (bits + 1) / 2;
}

std::uint64_t Permutation::operator()(std::uint64_t i) const {
  POSENC_CHECK(i < n_, "index outside the permutation");
  const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
  do {  // the domain is at most 4n, so four rounds on average; ends because i itself lies on the cycle
    std::uint64_t left = i >> half_bits_;
    std::uint64_t right = i & mask;
    for (std::uint64_t round = 1; round <= kFeistelRounds; ++round) {
      const std::uint64_t next = left ^ (mix(key_ + round * kGamma + right) & mask);
      left = right;
      right = next;
    }
    i = left << half_bits_ | right;
  } while (i >= n_);
  return i;
}

}  // namespace posenc
