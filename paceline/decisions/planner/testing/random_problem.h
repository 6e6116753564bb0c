// Made-up models and clusters for the planner's tests: devices of unlike speed and memory at several sites,
// some links slow, layers of unlike work. The same seed gives the same.
#pragma once

#include <cstdint>

#include "paceline/base/rng.h"
#include "paceline/decisions/planner/problem.h"

namespace paceline::planner::testing {

struct ProblemShape {
  std::int32_t least_devices = 1;
  std::int32_t most_devices = 8;
  std::int32_t least_layers = 1;
  std::int32_t most_layers = 12;
  std::int64_t most_batch = 64;
  // Memory of a device, as a multiple of the whole model's need; below 1 a device may be too small. 0: no
  // limit.
  double least_memory = 0;
  double most_memory = 0;
};

Problem random_problem(Rng& rng, const ProblemShape& shape);

}  // namespace paceline::planner::testing
