#include "paceline/report/update_times.h"

#include <gtest/gtest.h>

#include "paceline/report/testing/moments.h"

namespace paceline::report {
namespace {

using testing::at;

TEST(UpdateTimes, KnowNothingBeforeTheFirstCompletion) {
  UpdateTimes times;
  times.ordered(Version(1), 2, at(1));
  EXPECT_FALSE(times.measured());
}

TEST(UpdateTimes, CountFromTheOrderOrFromTheOneBefore) {
  UpdateTimes times;
  times.ordered(Version(1), 1, at(1));
  times.ordered(Version(2), 1, at(1.1));
  times.completed(Version(1), at(1.5));
  times.completed(Version(2), at(2));
  times.ordered(Version(3), 1, at(10));
  times.completed(Version(3), at(10.5));
  const auto measured = times.measured();
  ASSERT_TRUE(measured);
  EXPECT_EQ(measured->count, 3);
  EXPECT_NEAR(measured->mean_ms, 500, 1e-6);
  EXPECT_NEAR(measured->update_ms, 500, 1e-6);
  EXPECT_FALSE(measured->gradient_ms);  // all had one
}

TEST(UpdateTimes, TellWhatAFurtherGradientAdds) {
  UpdateTimes times;
  for (int i = 1; i <= 9; ++i) {
    const int members = 1 + i % 4;
    times.ordered(Version(i), static_cast<std::size_t>(members), at(10 * i));
    times.completed(Version(i), at(10 * i + 0.060 + 0.007 * (members - 1)));
  }
  const auto measured = times.measured();
  ASSERT_TRUE(measured && measured->gradient_ms);
  EXPECT_NEAR(measured->update_ms, 60, 1e-6);
  EXPECT_NEAR(*measured->gradient_ms, 7, 1e-6);
}

TEST(UpdateTimes, GoOnWhereNobodySaysForLongWhatIsComplete) {
  UpdateTimes times;
  for (int i = 1; i <= 10'000; ++i) times.ordered(Version(i), 1, at(i));
  times.completed(Version(1), at(20'000));
  EXPECT_FALSE(times.measured());
  times.completed(Version(10'000), at(20'000));
  EXPECT_TRUE(times.measured());
}

TEST(UpdateTimes, LeaveOutWhatTheyWereNotToldOf) {
  UpdateTimes times;
  times.completed(Version(4), at(1));
  times.ordered(Version(5), 1, at(2));
  times.ordered(Version(6), 1, at(3));
  times.completed(Version(6), at(4));
  times.completed(Version(5), at(5));
  ASSERT_TRUE(times.measured());
  EXPECT_EQ(times.measured()->count, 1);
  EXPECT_NEAR(times.measured()->mean_ms, 1000, 1e-6);
}

}  // namespace
}  // namespace paceline::report
