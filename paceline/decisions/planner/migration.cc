#include "paceline/decisions/planner/migration.h"

#include <algorithm>
#include <utility>

namespace paceline::planner {

namespace {

// The model's layers on a device; [0, 0) if it has none.
std::pair<std::int32_t, std::int32_t> layers_on(const Plan& plan, std::int32_t device, std::int32_t layers) {
  for (const PlannedReplica& replica : plan.replicas) {
    for (std::size_t s = 0; s < replica.devices.size(); ++s) {
      if (replica.devices[s] == device) return {replica.begin(s), replica.end(s, layers)};
    }
  }
  return {0, 0};
}

}  // namespace

double migration_ms(const Problem& problem, const Plan& from, const Plan& to, double fixed_ms) {
  double slowest = 0;
  bool any = false;
  for (const PlannedReplica& replica : to.replicas) {
    for (std::size_t s = 0; s < replica.devices.size(); ++s) {
      const std::int32_t n = replica.devices[s];
      const auto [had_begin, had_end] = layers_on(from, n, problem.layers());
      std::int64_t bytes = 0;
      bool new_here = false;
      for (std::int32_t l = replica.begin(s); l < replica.end(s, problem.layers()); ++l) {
        if (l >= had_begin && l < had_end) continue;
        bytes += problem.model.layers[static_cast<std::size_t>(l)].parameter_bytes;
        new_here = true;
      }
      if (!new_here) continue;
      any = true;
      slowest = std::max(slowest, problem.cluster.devices[static_cast<std::size_t>(n)].servers.ms(
                                      static_cast<double>(bytes)));
    }
  }
  return any ? fixed_ms + slowest : 0;
}

}  // namespace paceline::planner
