// The report on hosts that were examined together, for a terminal and for programs. Pure.
#pragma once

#include <string>
#include <vector>

#include "paceline/tools/doctor/examination.h"
#include "paceline/tools/doctor/facts.h"

namespace paceline::doctor {

// One line for each finding that hosts have in common; then the links, as tables; then a line with everything
// that has to be fixed.
std::string text_of(const ClusterFacts& facts, const std::vector<HostFinding>& findings);

// {"failed", "runs_dir", "hosts": [{"host", "came", "address", "version", "fabric", "build", "data",
// "clock_ahead_s", "clock_uncertainty_s", "findings"}], "links": [{"a", "b", "error"} or {"a", "b",
// "round_trip_us", "to_a_mb_s", "to_b_mb_s"}]}
std::string json_of(const ClusterFacts& facts, const std::vector<HostFinding>& findings);

// "0", "1-3, 5"; "all" if `hosts` has `all` of them. Requires: ascending.
std::string names_of(const std::vector<int>& hosts, std::size_t all);

}  // namespace paceline::doctor
