// The best plan that has other stages than the plan that was chosen, for people who ask why theirs is better. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "paceline/decisions/planner/planner.h"

namespace paceline::planner {

struct SecondBest {
  Plan plan;
  Evaluation evaluation;
  std::string reason;  // why it is slower
};

// If the cluster and the model are small, every plan is tried; otherwise the baselines, and the plan with one cut
// moved by one layer. Nothing if none of them is possible, keeps the budgets and is slower.
std::optional<SecondBest> second_best(const Problem& problem, const Planned& planned);

}  // namespace paceline::planner
