#include "paceline/wire/goodbye.h"

#include <fmt/format.h>

#include "paceline/base/ending.h"

namespace paceline::wire {

namespace {

Ending ending_of_refusal(Goodbye::Reason reason) {
  switch (reason) {
    case Goodbye::PLACE_TAKEN:
      return Ending::kPlaceTaken;
    case Goodbye::HOST_GIVEN_UP:
      return Ending::kHostGivenUp;
    default:
      return Ending::kOwnError;
  }
}

}  // namespace

Goodbye given_up(const std::string& why) {
  Goodbye goodbye;
  goodbye.set_again(true);
  goodbye.set_why(why);
  return goodbye;
}

Goodbye refused(const std::string& why, Goodbye::Reason reason) {
  Goodbye goodbye;
  goodbye.set_reason(reason);
  goodbye.set_refused(true);
  goodbye.set_why(why);
  return goodbye;
}

absl::Status coordinator_lost() {
  return with_ending(absl::UnavailableError("the coordinator is gone"), Ending::kCoordinatorLost);
}

absl::Status farewell(const Goodbye& goodbye) {
  if (goodbye.again())
    return absl::AbortedError(fmt::format("the coordinator had given this process up: {}", goodbye.why()));
  if (goodbye.failed())
    return with_ending(absl::UnavailableError("the run could not go on: " + goodbye.why()), Ending::kRunFailed);
  if (!goodbye.refused()) return absl::OkStatus();
  return with_ending(
      absl::FailedPreconditionError(fmt::format("the coordinator sent this process away: {}", goodbye.why())),
      ending_of_refusal(goodbye.reason()));
}

}  // namespace paceline::wire
