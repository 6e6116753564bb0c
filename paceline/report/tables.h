// The tables a terminal shows at the end of a run and of a comparison of policies. Pure functions; what is
// not known is "–".
#pragma once

#include <string>
#include <vector>

#include "paceline/report/summary.h"

namespace paceline::report {

// One row a replica, at most `most` of them (it says how many are left out), then a line on all together.
std::string replica_table(const Summary& summary, std::size_t most = 40);

// One row a run; the first to reach its target is marked with "*".
std::string comparison_table(const std::vector<Summary>& runs);

// Of runs without gradients: what they waited and what they did, one line a policy.
std::string simulation_table(const std::vector<Summary>& runs);

// The run that reached its target first: its index, or nothing when none did.
std::optional<std::size_t> fastest_to_target(const std::vector<Summary>& runs);

}  // namespace paceline::report
