// Runs of one job as one page shows them. Pure.
#pragma once

#include <vector>

#include "paceline/records/pages/json_values.h"
#include "paceline/records/stats/run_group.h"
#include "paceline/records/stats/summary.h"

namespace paceline::report {

// The documents (report_json.h), with what only a comparison knows: which run is the fastest, and the means
// over several seeds. In a planned comparison, runs that are not over or diverged are marked. Requires: one document for
// each summary.
std::vector<Json> compared(const std::vector<Summary>& summaries, std::vector<Json> documents,
                           const PlannedRuns& planned = {});

}  // namespace paceline::report
