// One search for a better plan during a run, as a value that OnlinePlanner gives. It can run on another
// thread while the run goes on, or again in a replay: the same search gives the same plan. Pure.
#pragma once

#include <optional>
#include <vector>

#include <absl/status/statusor.h>

#include "paceline/decisions/planner/evaluator.h"
#include "paceline/decisions/planner/plan.h"
#include "paceline/decisions/planner/problem.h"
#include "paceline/decisions/planner/search.h"

namespace paceline::planner {

struct PlanSearch {
  Problem problem;  // with everything as it was last measured
  Goal goal;
  std::vector<Plan> starts;  // the search adds the baselines if groups may change
  SearchOptions options;
};

// The best plan found; nothing if no start is possible. Errors: ResourceExhausted when the devices that are
// here cannot hold the model.
absl::StatusOr<std::optional<Plan>> run(const PlanSearch& search);

}  // namespace paceline::planner
