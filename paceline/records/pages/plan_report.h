// A plan and its alternatives, for people and for programs.
#pragma once

#include <optional>
#include <string>

#include "paceline/decisions/planner/planner.h"
#include "paceline/decisions/planner/second_best.h"
#include "paceline/records/pages/json_values.h"

namespace paceline::report {

// A picture: which device holds which layers, how long each stage and link takes for a micro-batch, memory,
// samples; then the parts of each device's memory, costs, the second best plan, and the baselines or why they are
// impossible.
std::string plan_text(const planner::Problem& problem, const planner::Planned& planned,
                      const std::optional<planner::SecondBest>& second);

// docs/plan.md lists the keys. `millis`: the time that the planning took.
Json plan_json(const planner::Problem& problem, const planner::Planned& planned,
               const std::optional<planner::SecondBest>& second, double millis);

// The keys of costs: money, energy_j, cross_site_mb.
Json costs_json(const planner::Costs& costs);

}  // namespace paceline::report
