// The dumbest planner: every plan there is. For the tests and the benchmark of the search, on tiny clusters.
#pragma once

#include <functional>

#include "paceline/decisions/planner/evaluator.h"

namespace paceline::planner::testing {

// Every way to cut the replicas of the plan from the `g`-th on, into stages of one device or of several.
void every_cutting(const Problem& problem, Plan plan, std::size_t g, const std::function<void(Plan)>& visit);

// Every order of some of the devices, divided everywhere into replicas, with every micro-batch and every
// cutting; plans that differ only in the order of their replicas once. Takes all devices for present.
void every_plan(const Problem& problem, const std::function<void(Plan)>& visit);

// The best of them, each with its samples as the evaluator gives them out; impossible when none is possible.
Evaluation best_of_every_plan(const Evaluator& evaluator);

}  // namespace paceline::planner::testing
