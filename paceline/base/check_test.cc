// A failed check names the place, the condition and the numbers, and ends the process.
#include "paceline/base/check.h"

#include <gtest/gtest.h>

#include "paceline/base/time.h"

namespace paceline {
namespace {

TEST(CheckDeathTest, SaysWhereAndWhatAndAborts) {
  const int found = 3;
  EXPECT_DEATH(PACELINE_CHECK(found == 4, "{} of {}", found, 4),
               "check_test.cc:[0-9]+: a bug in paceline: found == 4 does not hold: 3 of 4");
}

TEST(Check, FormatsNothingWhileItHolds) {
  int formatted = 0;
  PACELINE_CHECK(true, "{}", ++formatted);
  EXPECT_EQ(formatted, 0);
}

TEST(Time, SecondsGoThereAndBack) {
  EXPECT_EQ(from_seconds(2.5), std::chrono::milliseconds(2500));
  EXPECT_DOUBLE_EQ(to_seconds(Duration(1'500'000'000)), 1.5);
  EXPECT_DOUBLE_EQ(to_seconds(Time(Duration(250'000'000))), 0.25);
}

}  // namespace
}  // namespace paceline
