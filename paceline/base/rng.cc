#include "paceline/base/rng.h"

#include <cmath>
#include <numbers>
#include <numeric>
#include <utility>

namespace paceline {

namespace {
__extension__ using Wide = unsigned __int128;  // NOLINT: the one standard-less type Lemire's method needs
}  // namespace

std::uint64_t mix_seed(std::initializer_list<std::uint64_t> parts) {
  std::uint64_t seed = 0;
  for (std::uint64_t part : parts) seed = Rng(seed ^ part).next();
  return seed;
}

std::uint64_t Rng::next() {
  std::uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

std::uint64_t Rng::below(std::uint64_t bound) {
  Wide product = Wide{next()} * bound;
  auto low = static_cast<std::uint64_t>(product);
  if (low < bound) {
    const std::uint64_t threshold = -bound % bound;
    while (low < threshold) {
      product = Wide{next()} * bound;
      low = static_cast<std::uint64_t>(product);
    }
  }
  return static_cast<std::uint64_t>(product >> 64);
}

double Rng::uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }

double Rng::normal() {
  const double radius = std::sqrt(-2.0 * std::log(1.0 - uniform()));
  return radius * std::cos(2.0 * std::numbers::pi * uniform());
}

std::vector<std::int32_t> permutation(std::uint64_t seed, std::int32_t n) {
  std::vector<std::int32_t> order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  Rng rng(seed);
  for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[rng.below(i)]);
  return order;
}

}  // namespace paceline
