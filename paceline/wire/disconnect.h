// The last word to a process, and what it means to it.
#pragma once

#include <string>

#include <absl/status/status.h>

#include "paceline/wire/paceline.pb.h"

namespace paceline::wire {

// It was given up; it may come again as a new one.
Disconnect given_up(const std::string& why);

// It is not wanted in this job.
Disconnect refused(const std::string& why, Disconnect::Reason reason = Disconnect::NONE);

// The stream was cut short.
absl::Status coordinator_lost();

// OK when the job is over; Aborted when this process is to come again as a new one; another error when it is
// not wanted, or the run could not go on. With its ExitReason.
absl::Status outcome_of(const Disconnect& disconnect);
// The same for a process that may have a program of the user's, which wants to know whether the job is done.
absl::Status outcome_of_job(const Disconnect& disconnect);
// What that is where the run was stopped before the job was done.
absl::Status job_stopped();

}  // namespace paceline::wire
