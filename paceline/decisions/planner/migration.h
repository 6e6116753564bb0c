// The cost of changing from one plan to another. Workers keep no state, so to migrate is to pull the weights
// of new layers. Pure.
#pragma once

#include "paceline/decisions/planner/plan.h"
#include "paceline/decisions/planner/problem.h"

namespace paceline::planner {

// T_migrate: `fixed_ms` and the longest pull of any device; 0 if no device gets a layer that it did not have.
double migration_ms(const Problem& problem, const Plan& from, const Plan& to, double fixed_ms);

}  // namespace paceline::planner
