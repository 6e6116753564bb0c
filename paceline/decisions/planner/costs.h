// The costs of a batch besides time, and their limits in the long run (JDMP's time-averaged constraints).
#pragma once

#include <array>
#include <cstddef>
#include <vector>

namespace paceline::planner {

enum class CostKind { kMoney, kEnergy, kCrossSite };
inline constexpr std::size_t kCostKinds = 3;
// Money in the prices' currency, energy in joules, traffic between sites in bytes.
using Costs = std::array<double, kCostKinds>;

// The kinds' names in a file's budgets.
inline const char* name_of(CostKind kind) {
  constexpr std::array<const char*, kCostKinds> kNames = {"money", "energy_j", "cross_site_mb"};
  return kNames[static_cast<std::size_t>(kind)];
}

// A long-term mean that a cost is to stay under: C_k.
struct Budget {
  CostKind kind = CostKind::kMoney;
  double most = 0;          // > 0, for each batch, or for each second
  bool per_second = false;  // if true, a batch of time τ may cost most · τ

  std::size_t index() const { return static_cast<std::size_t>(kind); }
  double allowed(double batch_ms) const { return per_second ? most * batch_ms / 1000 : most; }
};

}  // namespace paceline::planner
