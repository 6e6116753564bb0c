// One scenario under one policy: one line of `paceline simulate`.
#pragma once

#include <optional>
#include <string>

#include <absl/status/statusor.h>

#include "paceline/decisions/control/controller.h"
#include "paceline/decisions/policy/policy_spec.h"
#include "paceline/records/stats/history.h"
#include "paceline/records/stats/summary.h"
#include "paceline/simulation/sim/scenario.h"

namespace paceline::sim {

struct Simulated {
  report::Summary summary;
  std::optional<report::History> history;  // only if it was asked for
  std::string trace_hash;                  // hash of all facts and orders
};

// One epoch of as many samples as the scenario needs.
control::ControllerConfig controller_config(const Scenario& scenario);

// Errors: those of VirtualCluster. A broken promise of a policy aborts.
absl::StatusOr<Simulated> simulate(const Scenario& scenario, const policy::PolicySpec& policy,
                                   bool with_history = false);

}  // namespace paceline::sim
