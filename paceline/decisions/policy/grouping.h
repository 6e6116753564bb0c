// Which replicas are worth waiting for: the grouping rules that compare costs, besides the natural one. Pure
// functions.
#pragma once

#include <cstddef>
#include <functional>
#include <span>

#include "paceline/base/time.h"

namespace paceline::policy {

// The learnt cost of a group.
struct GroupCosts {
  Duration global;                              // T_global
  Duration queue;                               // time until the global path is free
  std::function<Duration(std::size_t)> reduce;  // T_reduce(k)
};

// The myopic rule [ours]: k members stay together for one more that comes in `wait` (δ) while
// k·δ ≤ T_global + T_queue + T_reduce(k) − T_reduce(k+1).
bool window_stays_open(std::size_t members, Duration wait, const GroupCosts& costs);

// How many further members a group should wait for, if each is worth `worth` and waiting for the first m of
// them costs cost(m). It is the m with the greatest m·worth − cost(m); of equal ones the least. 0: no m is
// worth it. O(m), and cost() is asked only for an m that would be better if its cost were least[m − 1].
// Requires: least[m − 1] ≤ cost(m).
std::size_t best_number(std::span<const double> least, double worth,
                        const std::function<double(std::size_t)>& cost);

// The best division of all expected arrivals into groups [ours]. `waits`: until each replica is ready,
// ascending; the first `ready` are zero and belong together. Groups are contiguous in that order (two that
// cross can exchange members and nobody waits longer), so
//   D[j] = min over i of D[i−1] + Σ_{q=i..j} (f_j − f_q) + k·T_reduce(k) + T_global,  k = j − i + 1 ≤ k_max.
// The size of the first group, at least `ready`. O(n·k_max). Requires: 0 < ready ≤ n.
std::size_t best_first_group(std::span<const Duration> waits, std::size_t ready, std::size_t k_max,
                             const GroupCosts& costs);

}  // namespace paceline::policy
