// The times at which a failed checkpoint is tried again, and the last try.
#include "paceline/decisions/coordinator/checkpoint_retries.h"

#include <gtest/gtest.h>

namespace paceline::coordinator {
namespace {

constexpr SteadyTime kFailed{std::chrono::hours(1)};

TEST(CheckpointRetries, EachPauseIsTwiceAsLongUpToALimit) {
  CheckpointRetries retries;
  for (const int pause : {1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300})
    EXPECT_EQ(retries.failed(kFailed, false), std::chrono::seconds(pause));
  for (int i = 0; i < 100; ++i) EXPECT_EQ(retries.failed(kFailed, false), CheckpointRetries::kLongestPause);
}

TEST(CheckpointRetries, AreDueWhenThePauseIsOver) {
  CheckpointRetries retries;
  EXPECT_FALSE(retries.waiting(kFailed) || retries.due(kFailed)) << "none has failed";
  retries.failed(kFailed, false);
  EXPECT_TRUE(retries.waiting(kFailed));
  EXPECT_FALSE(retries.due(kFailed + std::chrono::milliseconds(999)));
  EXPECT_TRUE(retries.due(kFailed + std::chrono::seconds(1)));
  EXPECT_FALSE(retries.waiting(kFailed + std::chrono::seconds(1)));
  retries.tried();
  EXPECT_FALSE(retries.due(kFailed + std::chrono::seconds(10))) << "it is under way";
}

TEST(CheckpointRetries, BeginAgainAfterACheckpointThatCounts) {
  CheckpointRetries retries;
  EXPECT_FALSE(retries.written());
  retries.failed(kFailed, false);
  retries.failed(kFailed, false);
  EXPECT_TRUE(retries.written());
  EXPECT_FALSE(retries.due(kFailed + std::chrono::seconds(100)));
  EXPECT_EQ(retries.failed(kFailed, false), std::chrono::seconds(1));
}

TEST(CheckpointRetries, PeopleHearOfItNoMoreOftenThanItWasPromised) {
  CheckpointRetries retries;
  retries.failed(kFailed, false);
  EXPECT_TRUE(retries.is_news(kFailed));
  retries.failed(kFailed + std::chrono::milliseconds(500), false);
  EXPECT_FALSE(retries.is_news(kFailed + std::chrono::milliseconds(500))) << "of another checkpoint";
  retries.failed(kFailed + std::chrono::seconds(1), false);
  EXPECT_TRUE(retries.is_news(kFailed + std::chrono::seconds(1)));
  retries.written();
  retries.failed(kFailed + std::chrono::seconds(2), false);
  EXPECT_TRUE(retries.is_news(kFailed + std::chrono::seconds(2))) << "one counted in between";
}

TEST(CheckpointRetries, AtTheEndItIsTriedAFewTimes) {
  CheckpointRetries retries;
  for (int i = 0; i < 10; ++i) retries.failed(kFailed, false);
  retries.end();
  EXPECT_FALSE(retries.waiting(kFailed)) << "at once";
  int tries = 1;
  while (retries.failed(kFailed, true)) ++tries;
  EXPECT_EQ(tries, CheckpointRetries::kTriesAtTheEnd - 1) << "one failed before";
}

}  // namespace
}  // namespace paceline::coordinator
