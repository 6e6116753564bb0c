// Ways to make a model fit into a cluster whose memory allows no plan. Pure.
#pragma once

#include <string>

#include "paceline/decisions/planner/problem.h"

namespace paceline::planner {

// In words: "micro-batches of 2 would fit, or 1 more device like d0". Empty if neither helps.
std::string what_would_fit(const Problem& problem);

}  // namespace paceline::planner
