// A description of a run for its report, so that a reader who has only the page can understand and repeat it.
#pragma once

#include <optional>

#include "paceline/config/job_config.h"
#include "paceline/report/json_values.h"
#include "paceline/runs/run_origin.h"

namespace paceline::runs {

// [[name, text]], in the order in which they are shown.
report::Json about_run(const config::JobConfig& job, const std::optional<RunOrigin>& origin);

}  // namespace paceline::runs
