// A plan and what else could be done, for people and for programs.
#pragma once

#include <string>

#include "paceline/planner/planner.h"
#include "paceline/report/json_values.h"

namespace paceline::report {

// A picture: who holds which layers, how long each stage and link takes for a micro-batch, memory, samples;
// then costs, and the baselines or why they cannot be.
std::string plan_text(const planner::Problem& problem, const planner::Planned& planned);

// Keys as docs/plan.md lists them. `millis`: what the planning took.
Json plan_json(const planner::Problem& problem, const planner::Planned& planned, double millis);

// The keys of costs: money, energy_j, cross_site_mb.
Json costs_json(const planner::Costs& costs);

}  // namespace paceline::report
