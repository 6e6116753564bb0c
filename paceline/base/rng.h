// Random numbers that are the same bytes on every machine and compiler, which std's distributions are not.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <vector>

namespace paceline {

// Mixes numbers into one seed, so that every (seed, epoch, sample) has a stream of its own.
std::uint64_t mix_seed(std::initializer_list<std::uint64_t> parts);

// SplitMix64 (Steele, Lea, Flood 2014): tiny, passes BigCrush, and any 64-bit seed is a good one.
class Rng {
 public:
  explicit Rng(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next();
  // Uniform in [0, bound); bound > 0. Unbiased (Lemire's method).
  std::uint64_t below(std::uint64_t bound);
  // Uniform in [0, 1).
  double uniform();
  // Standard normal (Box-Muller).
  double normal();

 private:
  std::uint64_t state_;
};

// A permutation of 0..n-1 (Fisher-Yates): the order of an epoch's samples.
std::vector<std::int32_t> permutation(std::uint64_t seed, std::int32_t n);

}  // namespace paceline
