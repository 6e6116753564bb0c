#include "paceline/wire/disconnect.h"

#include <fmt/format.h>

#include "paceline/base/exit_reason.h"

namespace paceline::wire {

namespace {

ExitReason exit_reason_of_refusal(Disconnect::Reason reason) {
  switch (reason) {
    case Disconnect::PLACE_TAKEN:
      return ExitReason::kPlaceTaken;
    case Disconnect::HOST_GIVEN_UP:
      return ExitReason::kHostGivenUp;
    default:
      return ExitReason::kOwnError;
  }
}

}  // namespace

Disconnect given_up(const std::string& why) {
  Disconnect disconnect;
  disconnect.set_again(true);
  disconnect.set_why(why);
  return disconnect;
}

Disconnect refused(const std::string& why, Disconnect::Reason reason) {
  Disconnect disconnect;
  disconnect.set_reason(reason);
  disconnect.set_refused(true);
  disconnect.set_why(why);
  return disconnect;
}

absl::Status coordinator_lost() {
  return with_exit_reason(absl::UnavailableError("the coordinator is gone"), ExitReason::kCoordinatorLost);
}

absl::Status outcome_of(const Disconnect& disconnect) {
  if (disconnect.again())
    return absl::AbortedError(fmt::format("the coordinator had given this process up: {}", disconnect.why()));
  if (disconnect.failed())
    return with_exit_reason(absl::UnavailableError("the run could not go on: " + disconnect.why()),
                            ExitReason::kRunFailed);
  if (!disconnect.refused()) return absl::OkStatus();
  return with_exit_reason(absl::FailedPreconditionError(
                              fmt::format("the coordinator sent this process away: {}", disconnect.why())),
                          exit_reason_of_refusal(disconnect.reason()));
}

absl::Status job_stopped() { return absl::CancelledError("the run was stopped"); }

absl::Status outcome_of_job(const Disconnect& disconnect) {
  const absl::Status outcome = outcome_of(disconnect);
  return outcome.ok() && disconnect.stopped() ? job_stopped() : outcome;
}

}  // namespace paceline::wire
