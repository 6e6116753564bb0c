#include "paceline/decisions/supervisor/end_reasons.h"

#include <fmt/format.h>

#include "paceline/base/status_message.h"

namespace paceline::supervisor {

absl::Status EndReasons::after_coordinator(const ProcessEnd& end) const {
  // A killed process is no error in the job.
  const auto reason = first_error ? exit_reason_of(*first_error) : ExitReason::kDone;
  const bool said = reason != ExitReason::kUnsaid && reason != ExitReason::kKilled;
  if (first_error) return said ? absl::InvalidArgumentError(first_error->message()) : *first_error;
  if (end.success && !lost_all.empty())
    return absl::UnavailableError(fmt::format("every replica lost a worker; the last one {}", lost_all));
  if (end.killed && failure) return *failure;
  if (end.exit_reason == ExitReason::kMemberLost && lost_with_coordinator) return *lost_with_coordinator;
  return end.success ? absl::OkStatus() : end.reason;
}

absl::Status EndReasons::as_heard(bool all_taken) const {
  if (first_error) return *first_error;
  if (failure) return *failure;
  if (no_leader) return *no_leader;
  if (taken && all_taken) {
    return absl::FailedPreconditionError(
        fmt::format("{}; was another host started with the same --rank?", message_of(*taken)));
  }
  return absl::OkStatus();
}

}  // namespace paceline::supervisor
