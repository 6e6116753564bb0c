// Keys of a job file that had other names before, or that counted before beside another one that says the same. In a user's
// file such a key is an error that says what to write; in a recorded run it is read with its old meaning.
#pragma once

#include <string>

#include <absl/status/statusor.h>
#include <toml++/toml.h>

#include "paceline/formats/config/section.h"

namespace paceline::config {

// Complains about the first old key of a job or a scenario, and says what to write now.
void refuse_old_keys(const toml::table& root, Complaints& complaints);

// The text of a recorded job with today's keys: the same text if it has no old keys, or is not TOML.
std::string with_current_keys(const std::string& job_toml);

}  // namespace paceline::config
