#include "paceline/decisions/policy/grouping.h"

#include <algorithm>
#include <limits>
#include <vector>

namespace paceline::policy {

bool window_stays_open(std::size_t members, Duration wait, const GroupCosts& costs) {
  const double waited = static_cast<double>(members) * to_seconds(wait);
  return waited <= to_seconds(costs.global + costs.queue + costs.reduce(members) - costs.reduce(members + 1));
}

std::size_t best_number(std::span<const double> least, double worth,
                        const std::function<double(std::size_t)>& cost) {
  std::size_t best = 0;
  double most = 0;
  for (std::size_t m = 1; m <= least.size(); ++m) {
    const double value = static_cast<double>(m) * worth;
    if (value - least[m - 1] <= most) continue;
    const double gain = value - cost(m);
    if (gain <= most) continue;
    most = gain;
    best = m;
  }
  return best;
}

std::size_t best_first_group(std::span<const Duration> waits, std::size_t ready, std::size_t k_max,
                             const GroupCosts& costs) {
  const std::size_t n = waits.size();
  k_max = std::max(k_max, ready);
  std::vector<double> sums(n + 1, 0);  // sums[j]: the first j waits, in seconds
  for (std::size_t j = 0; j < n; ++j) sums[j + 1] = sums[j] + to_seconds(waits[j]);
  std::vector<double> group(std::min(k_max, n) + 1, 0);  // group[k]: cost of a group of k besides the waiting
  for (std::size_t k = 1; k < group.size(); ++k)
    group[k] = static_cast<double>(k) * to_seconds(costs.reduce(k)) + to_seconds(costs.global);
  // best[j]: the least cost of the first j replicas; first[j]: the size of their first group.
  std::vector<double> best(n + 1, std::numeric_limits<double>::infinity());
  std::vector<std::size_t> first(n + 1, 0);
  best[0] = 0;
  for (std::size_t j = ready; j <= n; ++j) {
    for (std::size_t k = 1; k <= std::min(j, k_max); ++k) {
      const std::size_t before = j - k;
      if (before > 0 && before < ready) continue;
      const double waited = static_cast<double>(k) * to_seconds(waits[j - 1]) - (sums[j] - sums[before]);
      const double cost = best[before] + waited + group[k];
      if (cost < best[j]) {
        best[j] = cost;
        first[j] = before == 0 ? k : first[before];
      }
    }
  }
  return first[n];
}

}  // namespace paceline::policy
