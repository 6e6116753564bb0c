// How long those who are not here are waited for, and when a silence counts.
#include "paceline/decisions/coordinator/waiting.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline::coordinator {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr SteadyTime kNow{std::chrono::hours(1)};
constexpr SteadyTime::duration kListened = std::chrono::hours(1);

TEST(Patience, CountsFromWhenItBeganWithoutABreak) {
  Patience patience(2);
  EXPECT_FALSE(patience.is_over(true, kListened));
  EXPECT_FALSE(patience.is_over(true, kListened + std::chrono::milliseconds(1999)));
  EXPECT_TRUE(patience.is_over(true, kListened + std::chrono::seconds(2)));
  EXPECT_FALSE(patience.is_over(false, kListened + std::chrono::seconds(3)));
  EXPECT_FALSE(patience.is_over(true, kListened + std::chrono::seconds(4))) << "it begins anew";
  EXPECT_TRUE(patience.is_over(true, kListened + std::chrono::seconds(6)));
}

TEST(MissingDevices, AreGivenUpTogetherAndAskedForOnce) {
  MissingDevices missing(5);
  const std::vector<DevicePlace> two{DevicePlace(1), DevicePlace(3)};
  EXPECT_THAT(missing.overdue(two, false, kListened), IsEmpty());
  EXPECT_THAT(missing.overdue(two, true, kListened + std::chrono::seconds(10)), IsEmpty())
      << "the waiting begins here";
  EXPECT_THAT(missing.overdue(two, true, kListened + std::chrono::seconds(15)),
              ElementsAre(DevicePlace(1), DevicePlace(3)));
  missing.give_up(two);
  EXPECT_THAT(missing.overdue(two, true, kListened + std::chrono::seconds(30)), IsEmpty());
}

TEST(MissingDevices, ADeviceThatCameIsWaitedForWhenItLeavesAgain) {
  MissingDevices missing(5);
  missing.give_up({DevicePlace(1)});
  missing.came(DevicePlace(1));
  EXPECT_THAT(missing.overdue({DevicePlace(1)}, true, kListened), IsEmpty());
  EXPECT_THAT(missing.overdue({DevicePlace(1)}, true, kListened + std::chrono::seconds(5)),
              ElementsAre(DevicePlace(1)));
}

TEST(Hearing, IsGoodOnceThisProcessHasRunForAWhile) {
  Hearing hearing(kNow);
  EXPECT_FALSE(hearing.is_good(kNow + std::chrono::milliseconds(400)));
  EXPECT_TRUE(hearing.is_good(kNow + std::chrono::milliseconds(600)));
  EXPECT_FALSE(hearing.is_good(kNow + std::chrono::seconds(10))) << "it stood still";
  EXPECT_FALSE(hearing.is_good(kNow + std::chrono::seconds(10) + std::chrono::milliseconds(400)));
  EXPECT_TRUE(hearing.is_good(kNow + std::chrono::seconds(10) + std::chrono::milliseconds(800)));
}

TEST(Hearing, KnowsSinceWhenThisProcessRuns) {
  Hearing hearing(kNow);
  const SteadyTime soon = kNow + std::chrono::milliseconds(400), later = kNow + std::chrono::seconds(10);
  EXPECT_EQ(hearing.running_since(soon), kNow);
  hearing.is_good(soon);
  EXPECT_EQ(hearing.running_since(later), later) << "before it was told that time has passed";
  hearing.is_good(later);
  EXPECT_EQ(hearing.running_since(later + std::chrono::milliseconds(100)), later);
}

TEST(Hearing, AProcessThatStoodStillHasNotListened) {
  Hearing hearing(kNow);
  for (int i = 1; i <= 10; ++i) hearing.is_good(kNow + i * std::chrono::milliseconds(100));
  EXPECT_EQ(hearing.listened(), std::chrono::seconds(1));
  hearing.is_good(kNow + std::chrono::seconds(60));
  EXPECT_EQ(hearing.listened(), std::chrono::seconds(1));
  hearing.is_good(kNow + std::chrono::milliseconds(60100));
  EXPECT_EQ(hearing.listened(), std::chrono::milliseconds(1100));
}

}  // namespace
}  // namespace paceline::coordinator
