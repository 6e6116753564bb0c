// A description of a run for its report, so that a reader who has only the page can understand and repeat it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "paceline/formats/config/job_config.h"
#include "paceline/processes/runs/run_origin.h"
#include "paceline/records/pages/json_values.h"

namespace paceline::runs {

// [[name, text]], in the order in which they are shown.
report::Json about_run(const config::JobConfig& job, const std::optional<RunOrigin>& origin);
// For several jobs, none of them a run: each common setting once, and all values of the others.
report::Json about_jobs(const std::vector<config::JobConfig>& jobs);
// Adds an entry; an empty text is left out.
void add_about(report::Json& list, const std::string& name, const std::string& text);
// Adds the known facts about a run's origin, at the end of such a list.
void add_origin(report::Json& list, const RunOrigin& origin);

}  // namespace paceline::runs
