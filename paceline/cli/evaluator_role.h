// The evaluator process: measures versions on the test set, beside training and at the lowest priority.
#pragma once

#include <string>

#include <absl/status/status.h>

namespace paceline::cli {

// Evaluates for the job of the coordinator at this address, until the job is over.
absl::Status run_evaluator(const std::string& coordinator);

}  // namespace paceline::cli
