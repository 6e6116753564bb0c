// The examination of this host by `paceline doctor`: its limits and clocks, and the needs of a job's
// processes.
#pragma once

#include <ctime>
#include <optional>
#include <vector>

#include "paceline/formats/config/job_config.h"
#include "paceline/tools/doctor/finding.h"

namespace paceline::cli {

using doctor::Finding;
using doctor::Health;

std::vector<Finding> host_findings();

// `usable`: the processors that this process may use. `load`: that of all of the host's; nothing if it is not known.
Finding processors_finding(int usable, int of_host, std::optional<double> load);
// `synchronized`: with the world's; nothing where the system does not say.
Finding clock_finding(std::time_t now, std::optional<bool> synchronized);

// The findings about a job: its certificates and its token.
std::vector<Finding> job_findings(const config::JobConfig& job);

// Whether a job's coordinator can listen at this address (HOST:PORT).
Finding port_finding(const std::string& listen);

}  // namespace paceline::cli
