// The tables that a terminal shows at the end of a run and of a comparison of policies. Pure functions; an
// unknown value is "–".
#pragma once

#include <string>
#include <vector>

#include "paceline/records/stats/run_group.h"
#include "paceline/records/stats/summary.h"

namespace paceline::report {

// One row a replica, at most `most` of them (and the number of those left out), then a line about all
// together.
std::string replica_table(const Summary& summary, std::size_t most = 40);

struct ComparisonRows {
  std::vector<std::string> head;
  std::vector<std::vector<std::string>> rows;
};

// One row a policy; with several seeds means ± standard errors, and the number of planned runs that have a value if
// some do not. A policy with a run that is not over, or that diverged, is marked. In a planned comparison, only runs
// that came to their end have an elapsed time, a loss and an accuracy. Requires: a run.
ComparisonRows comparison_rows(const std::vector<Summary>& runs, const PlannedRuns& planned = {});

// The same as text; the fastest (report/ranking.h) is marked with "*". Then an explanation, a line each.
std::string comparison_table(const std::vector<Summary>& runs, const PlannedRuns& planned = {});

// True if the run came to its end, so that its last numbers count. If no runs are planned, each run has ended that did not
// diverge.
bool came_to_its_end(const Summary& run, const PlannedRuns& planned);

// " (unfinished)", " (diverged)", " (1 diverged, 2 unfinished)"; nothing if all runs of the group came to their end.
std::string ending_mark(const RunGroup& group, const PlannedRuns& planned);

// A table of runs without gradients: their waiting and their work. One line a policy; with several seeds
// means ± standard errors.
std::string simulation_table(const std::vector<Summary>& runs);

}  // namespace paceline::report
