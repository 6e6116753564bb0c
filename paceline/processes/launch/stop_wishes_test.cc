#include "paceline/processes/launch/stop_wishes.h"

#include <gtest/gtest.h>

namespace paceline::launch {
namespace {

constexpr std::int64_t kMillisecond = 1'000'000;

TEST(StopWishes, TwoSignalsOfOneCauseAreOneWish) {
  StopWishes wishes;
  EXPECT_EQ(wishes.count(), 0);
  EXPECT_TRUE(wishes.came(5 * kMillisecond));
  EXPECT_FALSE(wishes.came(5 * kMillisecond));
  EXPECT_FALSE(wishes.came(900 * kMillisecond));
  EXPECT_EQ(wishes.count(), 1);
}

TEST(StopWishes, CountALaterSignalAgain) {
  StopWishes wishes;
  wishes.came(0);
  EXPECT_FALSE(wishes.came(999 * kMillisecond));
  EXPECT_TRUE(wishes.came(1000 * kMillisecond));
  EXPECT_EQ(wishes.count(), 2);
}

}  // namespace
}  // namespace paceline::launch
