// A description of a run for its report, so that a reader who has only the page can understand and repeat it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "paceline/config/job_config.h"
#include "paceline/report/json_values.h"
#include "paceline/runs/run_origin.h"

namespace paceline::runs {

// [[name, text]], in the order in which they are shown.
report::Json about_run(const config::JobConfig& job, const std::optional<RunOrigin>& origin);
// Of several jobs, none of them a run: what they have in common once, and where they differ all that there
// is.
report::Json about_jobs(const std::vector<config::JobConfig>& jobs);
// One more of them; an empty text is left out.
void add_about(report::Json& list, const std::string& name, const std::string& text);
// What is known of where a run comes from, at the end of such a list.
void add_origin(report::Json& list, const RunOrigin& origin);

}  // namespace paceline::runs
