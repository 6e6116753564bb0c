// Why a process of a job ended, as a value, so that nobody has to read texts to know what to do.
#pragma once

#include <optional>
#include <string_view>

#include <absl/status/status.h>

namespace paceline {

enum class ExitReason {
  kDone,             // the job is over
  kInterrupted,      // the run was stopped before, as the command of a host was interrupted
  kOwnError,         // of this process: another one would have it too
  kCoordinatorLost,  // the stream was cut short
  kRunFailed,        // the coordinator said that the run could not go on
  kMemberLost,       // a process that the coordinator needs went away; its own reason says more
  kPlaceTaken,       // another process has its place
  kHostGivenUp,      // the run goes on without its host
  kKilled,           // by somebody, in the middle of something; the starter sees this, and the next one
  kUnsaid,           // it ended without a word that came here: its log may have one
};

std::string_view name_of(ExitReason reason);
std::optional<ExitReason> exit_reason_named(std::string_view name);

// The same error, which says this besides.
absl::Status with_exit_reason(absl::Status status, ExitReason reason);
// kDone where it is OK, and kOwnError unless it says something else.
ExitReason exit_reason_of(const absl::Status& status);

}  // namespace paceline
