#include "paceline/simulation/sim/simulation.h"

#include <algorithm>

#include "paceline/base/check.h"
#include "paceline/base/status_macros.h"
#include "paceline/decisions/control/trace_hash.h"
#include "paceline/records/stats/run_stats.h"
#include "paceline/simulation/sim/virtual_cluster.h"

namespace paceline::sim {

namespace {

// The samples of a run that ends by its iterations: more than it can ever need.

report::UpdateSummary of(const UpdateSums& updates, Time now) {
  const double seconds = to_seconds(now.time_since_epoch());
  // Updates that were ordered and not made yet count as made.
  return {.busy_share = seconds > 0 ? std::min(1.0, to_seconds(updates.made) / seconds) : 0,
          .queued_mean_s =
              updates.count > 0 ? to_seconds(updates.queued) / static_cast<double>(updates.count) : 0};
}

}  // namespace

control::ControllerConfig controller_config(const Scenario& scenario) {
  control::ControllerConfig config;
  config.total_samples = scenario.samples > 0 ? scenario.samples : kUnknownTotal;
  config.dataset_size = config.total_samples;
  config.ahead = scenario.ahead;
  return config;
}

absl::StatusOr<Simulated> simulate(const Scenario& scenario, const policy::PolicySpec& policy,
                                   bool with_history) {
  const control::ControllerConfig config = controller_config(scenario);
  report::RunStats stats({.title = "",
                          .policy = policy::to_string(policy),
                          .world = report::World::kSimulated,
                          .total_samples = scenario.samples,
                          .target = {}});
  control::TraceHash trace;
  VirtualCluster cluster(scenario.cluster, config, policy::make_policy(policy),
                         {.listeners = {&stats, &trace}, .stop_after_iterations = scenario.iterations});
  const absl::Status status = cluster.run_until_over();
  PACELINE_CHECK(!cluster.broken(), "{}", *cluster.broken());
  PACELINE_RETURN_IF_ERROR(status);
  Simulated simulated{stats.summary(cluster.now()), std::nullopt, trace.hex()};
  if (with_history) simulated.history = stats.history(cluster.now());
  if (!scenario.cluster.servers.update.none())
    simulated.summary.updates = of(cluster.updates(), cluster.now());
  return simulated;
}

}  // namespace paceline::sim
