// The tables that a terminal shows at the end of a run and of a comparison of policies. Pure functions; an
// unknown value is "–".
#pragma once

#include <string>
#include <vector>

#include "paceline/records/stats/summary.h"

namespace paceline::report {

// One row a replica, at most `most` of them (and the number of those left out), then a line about all
// together.
std::string replica_table(const Summary& summary, std::size_t most = 40);

struct ComparisonRows {
  std::vector<std::string> head;
  std::vector<std::vector<std::string>> rows;
};

// One row a policy; with several seeds means ± standard errors. Requires: a run.
ComparisonRows comparison_rows(const std::vector<Summary>& runs);

// The same as text; the fastest (report/ranking.h) is marked with "*". Then an explanation, a line each.
std::string comparison_table(const std::vector<Summary>& runs);

// A table of runs without gradients: their waiting and their work. One line a policy; with several seeds
// means ± standard errors.
std::string simulation_table(const std::vector<Summary>& runs);

}  // namespace paceline::report
