// What `paceline doctor` looks at: limits and clocks of this host, and what a job's processes on it need.
#pragma once

#include <vector>

#include "paceline/config/job_config.h"
#include "paceline/doctor/finding.h"

namespace paceline::cli {

using doctor::Finding;
using doctor::Health;

std::vector<Finding> host_findings();

// Of a job: its certificates and its token.
std::vector<Finding> job_findings(const config::JobConfig& job);

// Whether a job's coordinator can listen there (HOST:PORT).
Finding port_finding(const std::string& listen);

}  // namespace paceline::cli
