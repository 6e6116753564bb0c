// Findings about hosts that were examined together: what is wrong, on which host, and how to fix it. Pure.
#pragma once

#include <vector>

#include "paceline/tools/doctor/facts.h"

namespace paceline::doctor {

struct HostFinding {
  int host = 0;
  Finding finding;
};

// Each host's own findings, and those that only a comparison shows.
std::vector<HostFinding> examine(const ClusterFacts& facts);

// True if something has to be fixed before a run.
bool any_failed(const std::vector<HostFinding>& findings);

}  // namespace paceline::doctor
