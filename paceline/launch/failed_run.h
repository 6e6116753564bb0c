// The end of a run that failed: what to tell of it, and what to leave of it. Once no process of it is left.
#pragma once

#include <string>

#include <absl/status/status.h>

namespace paceline::launch {

// Whether the run's journal has anything to tell, or there is a checkpoint of it.
bool has_trained(const std::string& folder);

// "resume with: COMMAND --resume FOLDER".
std::string resume_with(const std::string& command, const std::string& folder);

// The error with what to do next: resume, or read the logs. A new run that has not trained goes altogether,
// unless its logs may say more than the error. `command`: what goes on with such a run.
absl::Status end_of_failed(const absl::Status& error, const std::string& folder, bool resumed,
                           const std::string& command, bool logs_say_more);

}  // namespace paceline::launch
