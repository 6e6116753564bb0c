// What a run was, in words that a report shows: so that somebody who has nothing but the page can tell, and
// repeat it.
#pragma once

#include <optional>

#include "paceline/config/job_config.h"
#include "paceline/report/json_values.h"
#include "paceline/runs/run_origin.h"

namespace paceline::runs {

// [[name, text]], in the order in which they are shown.
report::Json about_run(const config::JobConfig& job, const std::optional<RunOrigin>& origin);

}  // namespace paceline::runs
