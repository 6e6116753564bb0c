// A problem in, the plan out, with what else could have been done and why this is better. Pure: what
// `paceline plan` shows, and what a run starts from.
#pragma once

#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "paceline/planner/search.h"

namespace paceline::planner {

struct BaselineResult {
  std::string name;
  absl::StatusOr<Plan> plan;
  Evaluation evaluation;  // impossible where there is no plan
};

struct Planned {
  SearchResult found;
  Forecast forecast;
  std::vector<BaselineResult> baselines;
  std::string reason;
};

// Keeps every budget in each batch. Errors: ResourceExhausted where memory or a budget allows no plan, with
// the number that would; InvalidArgument where no device is there.
absl::StatusOr<Planned> make_plan(const Problem& problem, const SearchOptions& options);

// Which baseline the plan beats and by how much, and what holds it up.
std::string reason_of(const CostModel& model, const Plan& plan, const std::vector<BaselineResult>& baselines);

// "gpu0 → gpu1".
std::string names_of(const Problem& problem, const PlannedReplica& replica,
                     const std::string& between = " → ");

}  // namespace paceline::planner
