// Tests of what the coordinator's last message means to a process.
#include "paceline/formats/wire/disconnect.h"

#include <gtest/gtest.h>

#include "paceline/base/exit_reason.h"

namespace paceline::wire {
namespace {

TEST(Disconnect, WithoutAReasonTheJobIsOver) {
  EXPECT_TRUE(outcome_of(Disconnect()).ok());
  EXPECT_EQ(exit_reason_of(outcome_of(Disconnect())), ExitReason::kDone);
}

TEST(Disconnect, OneThatWasGivenUpComesAgain) {
  Disconnect given_up;
  given_up.set_again(true);
  given_up.set_why("silent for 3 s");
  const absl::Status outcome = outcome_of(given_up);
  EXPECT_TRUE(absl::IsAborted(outcome));
  EXPECT_EQ(outcome.message(), "the coordinator had given this process up: silent for 3 s");
}

TEST(Disconnect, OneThatIsNotWantedHearsWhy) {
  const auto reason_for = [](Disconnect::Reason reason) {
    const absl::Status outcome = outcome_of(refused("it is taken", reason));
    EXPECT_EQ(outcome.message(), "the coordinator sent this process away: it is taken");
    return exit_reason_of(outcome);
  };
  EXPECT_EQ(reason_for(Disconnect::NONE), ExitReason::kOwnError);
  EXPECT_EQ(reason_for(Disconnect::PLACE_TAKEN), ExitReason::kPlaceTaken);
  EXPECT_EQ(reason_for(Disconnect::HOST_GIVEN_UP), ExitReason::kHostGivenUp);
}

TEST(Disconnect, ARunThatFailedIsNobodysOwnError) {
  Disconnect failed;
  failed.set_failed(true);
  failed.set_why("the weights are not finite");
  EXPECT_EQ(outcome_of(failed).message(), "the run could not go on: the weights are not finite");
  EXPECT_EQ(exit_reason_of(outcome_of(failed)), ExitReason::kRunFailed);
}

TEST(Disconnect, ARunThatWasStoppedIsNoJobThatIsDone) {
  Disconnect stopped;
  stopped.set_stopped(true);
  EXPECT_TRUE(outcome_of(stopped).ok());
  EXPECT_TRUE(is_stop(outcome_of_job(stopped)));
  EXPECT_TRUE(end_of_stopped(outcome_of_job(stopped)).ok());
  EXPECT_TRUE(outcome_of_job(Disconnect()).ok());
  EXPECT_FALSE(is_stop(outcome_of_job(Disconnect())));
  EXPECT_FALSE(is_stop(absl::CancelledError("of something else")));
  stopped.set_failed(true);
  EXPECT_EQ(outcome_of_job(stopped), outcome_of(stopped)) << "that counts for more";
}

TEST(Disconnect, ARunWhoseHostWasInterruptedSaysWhich) {
  Disconnect stopped;
  stopped.set_stopped(true);
  stopped.set_interrupted(true);
  stopped.set_why("host 1 was interrupted");
  EXPECT_TRUE(is_stop(outcome_of_job(stopped)));
  const absl::Status end = end_of_stopped(outcome_of_job(stopped));
  EXPECT_EQ(end.message(), "host 1 was interrupted");
  EXPECT_EQ(exit_reason_of(end), ExitReason::kInterrupted);
}

TEST(Disconnect, AStreamThatWasCutShortIsALostCoordinator) {
  EXPECT_EQ(exit_reason_of(coordinator_lost()), ExitReason::kCoordinatorLost);
}

}  // namespace
}  // namespace paceline::wire
