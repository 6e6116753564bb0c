// The last word to a process, and what it means to it.
#pragma once

#include <string>

#include <absl/status/status.h>

#include "paceline/formats/wire/paceline.pb.h"

namespace paceline::wire {

// The process is not wanted in this job.
Disconnect refused(const std::string& why, Disconnect::Reason reason = Disconnect::NONE);

// The stream was cut short.
absl::Status coordinator_lost();

// OK when the job is over; Aborted when this process is to come again as a new one; another error when it is
// not wanted, or the run could not go on. With its ExitReason.
absl::Status outcome_of(const Disconnect& disconnect);
// The same, but where the run was stopped before the job was done: then it is a stop.
absl::Status outcome_of_job(const Disconnect& disconnect);
bool is_stop(const absl::Status& outcome);
// The status that a process ends with after such a stop: OK, or Cancelled with ExitReason::kInterrupted and
// who was.
absl::Status end_of_stopped(const absl::Status& outcome);

}  // namespace paceline::wire
