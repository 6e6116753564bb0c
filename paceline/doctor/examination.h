// What is to be said of hosts that were examined together: what is wrong, on which host, and how to fix it.
// Pure.
#pragma once

#include <vector>

#include "paceline/doctor/facts.h"

namespace paceline::doctor {

struct HostFinding {
  int host = 0;
  Finding finding;
};

// What each host found itself, and what shows only when they are compared.
std::vector<HostFinding> examine(const ClusterFacts& facts);

// Whether something has to be fixed before a run.
bool any_failed(const std::vector<HostFinding>& findings);

}  // namespace paceline::doctor
