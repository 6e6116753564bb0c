// Takes a problem and gives the plan, with the alternatives and the reason why it is better. Pure. `paceline
// plan` shows it, and a run starts from it.
#pragma once

#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "paceline/decisions/planner/search.h"

namespace paceline::planner {

struct BaselineResult {
  std::string name;
  absl::StatusOr<Plan> plan;
  Evaluation evaluation;  // impossible if there is no plan
};

struct Planned {
  SearchResult found;
  Forecast forecast;
  std::vector<BaselineResult> baselines;
  std::string reason;
};

// Keeps every budget in each batch. Errors: ResourceExhausted if memory or a budget allows no plan, with the
// number that would, and for memory also what else would fit; InvalidArgument if there is no device.
absl::StatusOr<Planned> make_plan(const Problem& problem, const SearchOptions& options);

// All present devices in one pipeline, in their order, cut as well as possible; neighbours may share a stage.
// With more than eight devices, each has its own stage, or stages are shared like PipeDream's. Errors:
// InvalidArgument if there is only one layer; ResourceExhausted if memory does not hold the model.
absl::StatusOr<Planned> plan_one_pipeline(const Problem& problem);

// A baseline's plan, by its name. Errors: why it is not possible.
absl::StatusOr<Planned> plan_of_baseline(const Problem& problem, const std::string& name);

// The part that adds most to each micro-batch of the slowest replica, in words.
std::string bottleneck_of(const Problem& problem, const Plan& plan, const Forecast& forecast);

// Which baseline the plan beats and by how much, and what holds it up.
std::string reason_of(const CostModel& model, const Plan& plan, const std::vector<BaselineResult>& baselines);

// One line: which devices compute which layers for how many samples. `names`: the devices' names.
std::string in_words(const std::vector<std::string>& names, std::int32_t layers, const Plan& plan);
std::string in_words(const Problem& problem, const Plan& plan, double batch_ms);

// "gpu0 → gpu1".
std::string names_of(const Problem& problem, const PlannedReplica& replica,
                     const std::string& between = " → ");

}  // namespace paceline::planner
