// The tables a terminal shows at the end of a run and of a comparison of policies. Pure functions; what is
// not known is "–".
#pragma once

#include <string>
#include <vector>

#include "paceline/report/summary.h"

namespace paceline::report {

// One row a replica, at most `most` of them (it says how many are left out), then a line on all together.
std::string replica_table(const Summary& summary, std::size_t most = 40);

struct ComparisonRows {
  std::vector<std::string> head;
  std::vector<std::vector<std::string>> rows;
};

// One row a policy; of several seeds means ± standard errors. Requires: a run.
ComparisonRows comparison_rows(const std::vector<Summary>& runs);

// The same as text; the fastest (report/ranking.h) is marked with "*". Then what that means, a line each.
std::string comparison_table(const std::vector<Summary>& runs);

// Of runs without gradients: what they waited and what they did. One line a policy; of several seeds means ±
// standard errors.
std::string simulation_table(const std::vector<Summary>& runs);

}  // namespace paceline::report
