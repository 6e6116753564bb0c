// Every plan of a small cluster, in turn. The search does this if it takes no longer than random moves. Pure.
#pragma once

#include <functional>

#include "paceline/decisions/planner/plan.h"
#include "paceline/decisions/planner/problem.h"

namespace paceline::planner {

// How many there are; plans that differ only in the order of their replicas count once. O(devices²).
double count_of_plans(const Problem& problem);

// Shows each of them, without samples: any of the present devices, in pipelines of any order, cut anywhere,
// with each micro-batch. `visit` may change what it is shown.
void for_each_plan(const Problem& problem, const std::function<void(Plan&)>& visit);

}  // namespace paceline::planner
