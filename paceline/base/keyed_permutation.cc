#include "paceline/base/keyed_permutation.h"

#include <bit>

#include "paceline/base/check.h"
#include "paceline/base/rng.h"

namespace paceline {

namespace {
// Three are a pseudorandom permutation (Luby and Rackoff 1988); small halves need more.
constexpr std::uint64_t kRounds = 6;
}  // namespace

KeyedPermutation::KeyedPermutation(std::uint64_t seed, std::int64_t n)
    : seed_(seed), n_(static_cast<std::uint64_t>(n)) {
  PACELINE_CHECK(n >= 1, "a permutation of {}", n);
  half_ = static_cast<int>(std::bit_width(n_ - 1) + 1) / 2;
}

std::uint64_t KeyedPermutation::once(std::uint64_t value) const {
  const std::uint64_t mask = (std::uint64_t{1} << half_) - 1;
  std::uint64_t left = value >> half_;
  std::uint64_t right = value & mask;
  for (std::uint64_t round = 0; round < kRounds; ++round) {
    const std::uint64_t next = left ^ (mix_seed({seed_, round, right}) & mask);
    left = right;
    right = next;
  }
  return (left << half_) | right;
}

std::int64_t KeyedPermutation::operator()(std::int64_t place) const {
  auto value = static_cast<std::uint64_t>(place);
  do value = once(value);
  while (value >= n_);
  return static_cast<std::int64_t>(value);
}

}  // namespace paceline
