// The end of a failed run: the report, and which files to keep. Call when no process of the run is left.
#pragma once

#include <string>

#include <absl/status/status.h>

namespace paceline::launch {

// True if the run's journal has an entry, or there is a checkpoint.
bool has_trained(const std::string& folder);

// The text "resume with: COMMAND --resume FOLDER", to be pasted whatever the folder's name is, and that before FOLDER.
std::string resume_with(const std::string& command, const std::string& folder);
std::string resume_with(const std::string& command);

// The error with advice: resume, or read the logs. The folder of a new run that has not trained is removed,
// unless its logs may say more than the error. `command`: the command that resumes such a run.
absl::Status end_of_failed(const absl::Status& error, const std::string& folder, bool resumed,
                           const std::string& command, bool logs_say_more);

}  // namespace paceline::launch
