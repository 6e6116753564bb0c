// What `paceline doctor` looks at: limits and clocks of this host, and what a job's processes on it need.
#pragma once

#include <vector>

#include "paceline/cli/doctor_command.h"
#include "paceline/config/job_config.h"

namespace paceline::cli {

// The first is of the processors.
std::vector<Finding> host_findings();

// Of a job: its port, its certificates and its token.
std::vector<Finding> job_findings(const config::JobConfig& job);

}  // namespace paceline::cli
