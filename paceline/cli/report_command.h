// `paceline report FOLDER`: the report of a run, or of a comparison, again from the journals.
#pragma once

#include <string>

#include <absl/status/status.h>

namespace paceline::cli {

absl::Status report_command(const std::string& folder);

}  // namespace paceline::cli
