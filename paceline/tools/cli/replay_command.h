// `paceline replay RUN`: gives a recorded run's facts to a fresh Controller and holds what it orders to what
// was ordered then.
#pragma once

#include <string>

#include <absl/status/status.h>

namespace paceline::cli {

// Prints a line for each attempt of the run. Errors: the first order that differs; not a run, or a journal
// that cannot be read.
absl::Status replay_command(const std::string& folder);

}  // namespace paceline::cli
