// The reason why a process of a job ended, as a value, so that no program has to read texts to know what to
// do.
#pragma once

#include <optional>
#include <string_view>

#include <absl/status/status.h>

namespace paceline {

enum class ExitReason {
  kDone,             // the job is over
  kInterrupted,      // the run was stopped early, because the command of a host was interrupted
  kOwnError,         // this process's own error: another one would have it too
  kCoordinatorLost,  // the stream was cut short, or no coordinator came
  kRunFailed,        // the coordinator said that the run could not go on
  kMemberLost,       // a process that the coordinator needs went away; its own reason says more
  kPlaceTaken,       // another process has its place
  kHostGivenUp,      // the run goes on without its host
  kLeavesLead,       // a coordinator that may lead later: it reached too few hosts, or another one leads
  kNothingToResume,  // the run has no whole checkpoint to go on from
  kKilled,           // killed in the middle of its work, or its program was
  kUnsaid,           // ended without a reason that arrived at its starter: its log may have one
};

std::string_view name_of(ExitReason reason);
std::optional<ExitReason> exit_reason_named(std::string_view name);

// The same error, with this reason attached.
absl::Status with_exit_reason(absl::Status status, ExitReason reason);
// The attached reason; without one, kDone for OK and kOwnError for an error.
ExitReason exit_reason_of(const absl::Status& status);

}  // namespace paceline
