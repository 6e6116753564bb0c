// The texts of the journal's columns about plans, devices' work on a batch, and facts about planning.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "paceline/decisions/control/facts.h"
#include "paceline/decisions/control/planned_run.h"

namespace paceline::store {

// {"micro_batch": u, "replicas": [{"devices": [0, 1], "cuts": [3], "samples": 16}]}
std::string to_text(const planner::Plan& plan);
// Errors: DataLoss if the text is no plan. Does not check whether the plan fits a job.
absl::StatusOr<planner::Plan> plan_from_text(const std::string& text);

// [[device, samples, nanoseconds computed]]
std::string to_text(const std::vector<control::DeviceWork>& work);
absl::StatusOr<std::vector<control::DeviceWork>> work_from_text(const std::string& text);

// The planning part of a fact: {"place": 0} of a replica that joins, {"worked_ns": [7, 5]} of one that is
// ready, {"device": 1} of a device that comes or goes, {"from": 0, "to": 1, "bytes": 9, "took_ns": 7,
// "shared": false} of a link that was measured, {"plan": {...}} or {"impossible": "..."} or {} of a plan that
// was searched. Nothing if the fact has no planning part.
std::optional<std::string> planning_of(const control::Fact& fact);
// Adds the planning part to a fact of that kind. Errors: DataLoss if the text does not belong to such a fact.
absl::Status add_planning(const std::string& text, control::Fact& fact);

}  // namespace paceline::store
