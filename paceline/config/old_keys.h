// Keys of a job file that had other names before. A file that somebody writes is refused with the new name;
// what a run recorded is read as it was meant.
#pragma once

#include <string>

#include <absl/status/statusor.h>
#include <toml++/toml.h>

#include "paceline/config/section.h"

namespace paceline::config {

// Complains about the first old key of a job or a scenario, and says what to write now.
void refuse_old_keys(const toml::table& root, Complaints& complaints);

// The job's text with today's keys: the same text where it has no others, or is not TOML.
std::string with_current_keys(const std::string& job_toml);

}  // namespace paceline::config
