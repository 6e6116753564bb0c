// What it costs to go over from one plan to another. Workers keep nothing, so migrating is pulling the
// weights of layers that one did not have. Pure.
#pragma once

#include "paceline/planner/plan.h"
#include "paceline/planner/problem.h"

namespace paceline::planner {

// T_migrate: `fixed_ms` and the longest pull of any device; 0 where no device gets a layer that it did not
// have.
double migration_ms(const Problem& problem, const Plan& from, const Plan& to, double fixed_ms);

}  // namespace paceline::planner
