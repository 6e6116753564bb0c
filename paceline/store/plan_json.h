// Plans, and what devices did of a batch, as the text of the journal's columns.
#pragma once

#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "paceline/control/planned_run.h"

namespace paceline::store {

// {"micro_batch": u, "replicas": [{"devices": [0, 1], "cuts": [3], "samples": 16}]}
std::string to_text(const planner::Plan& plan);
// Errors: DataLoss when it is none. Whether it fits a job is not looked at.
absl::StatusOr<planner::Plan> plan_from_text(const std::string& text);

// [[device, samples, nanoseconds computed]]
std::string to_text(const std::vector<control::DeviceWork>& work);
absl::StatusOr<std::vector<control::DeviceWork>> work_from_text(const std::string& text);

}  // namespace paceline::store
