// Takes a problem and gives the plan, with the alternatives and the reason why it is better. Pure. `paceline
// plan` shows it, and a run starts from it.
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

// All devices that are present in one pipeline, in their order, cut as well as can be; neighbours may share a
// stage. Of more than eight devices the stages are one each, or as PipeDream shares them. Errors:
// InvalidArgument where there is one layer for them; ResourceExhausted where memory does not hold it.
absl::StatusOr<Planned> plan_one_pipeline(const Problem& problem);

// A baseline's plan, by its name. Errors: why it is not possible.
absl::StatusOr<Planned> plan_of_baseline(const Problem& problem, const std::string& name);

// Which baseline the plan beats and by how much, and what holds it up.
std::string reason_of(const CostModel& model, const Plan& plan, const std::vector<BaselineResult>& baselines);

// One line: which devices compute which layers for how many samples. `names`: of the devices.
std::string in_words(const std::vector<std::string>& names, std::int32_t layers, const Plan& plan);
std::string in_words(const Problem& problem, const Plan& plan, double batch_ms);

// "gpu0 → gpu1".
std::string names_of(const Problem& problem, const PlannedReplica& replica,
                     const std::string& between = " → ");

}  // namespace paceline::planner
