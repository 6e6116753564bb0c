#include "paceline/formats/wire/disconnect.h"

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

bool is_stop(const absl::Status& outcome) {
  const ExitReason reason = exit_reason_of(outcome);
  return absl::IsCancelled(outcome) && (reason == ExitReason::kDone || reason == ExitReason::kInterrupted);
}

absl::Status end_of_stopped(const absl::Status& outcome) {
  return exit_reason_of(outcome) == ExitReason::kInterrupted ? outcome : absl::OkStatus();
}

absl::Status outcome_of_job(const Disconnect& disconnect) {
  const absl::Status outcome = outcome_of(disconnect);
  if (!outcome.ok() || !disconnect.stopped()) return outcome;
  return with_exit_reason(absl::CancelledError(disconnect.why()),
                          disconnect.interrupted() ? ExitReason::kInterrupted : ExitReason::kDone);
}

}  // namespace paceline::wire
