// JDMP's tentative search: which devices form which replica, in which order, where each pipeline is cut, and
// u. The same problem and seed give the same plan; the number of moves is fixed beforehand, not the time.
// Pure.
//
// If a cluster and a model are small (for example four devices and six layers), every plan is tried, and the
// best one is found. Otherwise the model scores random moves (moves.h) from each of the best few starts, and
// from the best of some random plans. A worse plan is kept with a chance that falls with how much worse it
// is, and towards the end (simulated annealing). A pipeline of few layers is then cut exactly (partition.h)
// for the number of micro-batches that its plan gives it. At the end the best few plans with different groups
// are cut exactly, and all their neighbours are tried until none is better. The starts are every baseline
// that is possible, so the plan is never predicted to be worse than any of them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "paceline/decisions/planner/baselines.h"
#include "paceline/decisions/planner/evaluator.h"
#include "paceline/decisions/planner/moves.h"

namespace paceline::planner {

struct SearchOptions {
  std::uint64_t seed = 1;
  // 0: depends on the size of the problem; a quarter of the plans or more: all of them
  std::int64_t moves = 0;
  MoveScope scope = MoveScope::kGroups;
};

struct SearchResult {
  Plan plan;
  Evaluation evaluation;
  std::int64_t moves = 0;     // plans that were scored
  std::int64_t accepted = 0;  // scored plans that the search went on from
};

// The best plan found from these starts. Errors: InvalidArgument when no start is possible.
absl::StatusOr<SearchResult> search(const Evaluator& evaluator, const std::vector<Plan>& starts,
                                    const SearchOptions& options);

// A plan that memory allows, not meant to be fast. Errors: ResourceExhausted, with what is missing.
absl::StatusOr<Plan> any_plan(const CostModel& model);

}  // namespace paceline::planner
