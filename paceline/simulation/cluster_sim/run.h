// One run in the made-up cluster, from a seed to its outcome.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "paceline/decisions/coordinator/phase.h"
#include "paceline/simulation/cluster_sim/scenario.h"

namespace paceline::cluster_sim {

struct Outcome {
  std::string broken;  // the first broken promise; empty: none
  std::string ended;   // how the run ended, in words
  int attempts = 0;
  int faults = 0;
  std::int64_t made_early = 0;  // versions that a server made before they were ordered
  double seconds = 0;           // the length of the run in the made-up time
  std::vector<std::string> trace;
  // The transitions of the coordinator's attempts.
  std::map<std::pair<coordinator::Phase, coordinator::Phase>, int> transitions;
};

Outcome run(std::uint64_t seed, bool tracing = false, Break broken = Break::kNone);

}  // namespace paceline::cluster_sim
