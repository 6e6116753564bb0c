#include "paceline/decisions/planner/testing/every_plan.h"

#include <algorithm>
#include <numeric>

namespace paceline::planner::testing {

// Any first layers that do not descend, but for those that are the same plan as others, or none.
void every_cutting(const Problem& problem, Plan plan, std::size_t g, const std::function<void(Plan)>& visit) {
  if (g == plan.replicas.size()) return visit(plan);
  PlannedReplica& replica = plan.replicas[g];
  const std::size_t devices = replica.devices.size();
  replica.cuts.assign(devices - 1, 0);
  const std::function<void(std::size_t, std::int32_t)> place = [&](std::size_t d, std::int32_t least) {
    if (d + 1 == devices) {
      if (devices > 1 && replica.cuts.back() == 0) return;
      return every_cutting(problem, plan, g + 1, visit);
    }
    for (replica.cuts[d] = least; replica.cuts[d] < problem.layers(); ++replica.cuts[d]) {
      const bool shares = replica.cuts[d] == (d == 0 ? 0 : replica.cuts[d - 1]);
      if (!shares || replica.devices[d] < replica.devices[d + 1]) place(d + 1, replica.cuts[d]);
    }
  };
  place(0, 0);
}

void every_plan(const Problem& problem, const std::function<void(Plan)>& visit) {
  std::vector<std::int32_t> devices(problem.cluster.devices.size());
  std::iota(devices.begin(), devices.end(), 0);
  do {
    for (std::size_t used = 1; used <= devices.size(); ++used) {
      // Orders that differ only in what is not used are one: of these, the one in which it ascends.
      if (!std::is_sorted(devices.begin() + static_cast<std::ptrdiff_t>(used), devices.end())) continue;
      for (std::uint32_t ends = 0; ends < (1u << (used - 1)); ++ends) {
        Plan plan{{{}}, 1};
        for (std::size_t i = 0; i < used; ++i) {
          plan.replicas.back().devices.push_back(devices[i]);
          if (i + 1 < used && (ends >> i & 1) != 0) plan.replicas.emplace_back();
        }
        const bool once = std::is_sorted(
            plan.replicas.begin(), plan.replicas.end(),
            [](const auto& a, const auto& b) { return a.devices.front() < b.devices.front(); });
        if (!once) continue;
        for (const std::int64_t u : problem.micro_batches) {
          plan.micro_batch = u;
          every_cutting(problem, plan, 0, visit);
        }
      }
    }
  } while (std::next_permutation(devices.begin(), devices.end()));
}

Evaluation best_of_every_plan(const Evaluator& evaluator) {
  Evaluation best;
  every_plan(evaluator.problem(), [&](Plan plan) {
    const Evaluation one = evaluator.assign(plan);
    if (one < best) best = one;
  });
  return best;
}

}  // namespace paceline::planner::testing
