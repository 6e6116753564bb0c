// A permutation of 0..n-1 that needs no memory and no time to begin with, for sets too large to be listed:
// each place is computed by itself. A Feistel network over the next power of four, and what it throws out of
// range goes through it again until it is within (cycle walking: Black and Rogaway 2002, "Ciphers with
// arbitrary finite domains", method 2). That is fewer than four times on the mean. Random enough for the
// order of samples; no secret.
#pragma once

#include <cstdint>

namespace paceline {

class KeyedPermutation {
 public:
  // Requires: 1 <= n.
  KeyedPermutation(std::uint64_t seed, std::int64_t n);

  // Requires: 0 <= place < n.
  std::int64_t operator()(std::int64_t place) const;

 private:
  std::uint64_t once(std::uint64_t value) const;

  std::uint64_t seed_;
  std::uint64_t n_;
  int half_;  // bits of each half of a value
};

}  // namespace paceline
