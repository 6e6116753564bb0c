#include "paceline/records/stats/update_times.h"

#include <gtest/gtest.h>

namespace paceline::report {
namespace {

control::SideWork update(std::int32_t server, double ms, std::int64_t members = 1) {
  return {
      .at = {}, .version = Version(1), .took = from_seconds(ms / 1000), .server = server, .members = members};
}

TEST(UpdateTimes, KnowNothingBeforeTheFirst) {
  UpdateTimes times;
  times.add({.at = {},
             .kind = control::SideWork::Kind::kEvaluation,
             .version = Version(1),
             .took = from_seconds(1)});
  EXPECT_TRUE(times.measured().empty());
}

TEST(UpdateTimes, AreOfEachServer) {
  UpdateTimes times;
  for (const double ms : {400.0, 500.0, 600.0}) times.add(update(0, ms));
  times.add(update(3, 2));
  const auto measured = times.measured();
  ASSERT_EQ(measured.size(), 2u);
  EXPECT_EQ(measured[0].server, 0);
  EXPECT_EQ(measured[0].count, 3);
  EXPECT_NEAR(measured[0].mean_ms, 500, 1e-6);
  EXPECT_NEAR(measured[0].update_ms, 500, 1e-6);
  EXPECT_FALSE(measured[0].gradient_ms);  // all had one gradient
  EXPECT_EQ(measured[1].server, 3);
  EXPECT_NEAR(measured[1].mean_ms, 2, 1e-6);
}

// Measurements scatter, and the straight line through them may cross zero. No time is negative.
TEST(UpdateTimes, AreNeverNegative) {
  UpdateTimes falls, begins_below;
  for (const auto& [members, ms] : {std::pair(1, 3.4), {2, 3.2}, {3, 3.1}}) falls.add(update(0, ms, members));
  for (const auto& [members, ms] : {std::pair(4, 1.0), {6, 5.0}, {8, 9.0}})
    begins_below.add(update(0, ms, members));
  EXPECT_EQ(falls.measured()[0].gradient_ms, 0);
  EXPECT_NEAR(falls.measured()[0].update_ms, falls.measured()[0].mean_ms, 1e-9);
  EXPECT_NEAR(begins_below.measured()[0].update_ms, 0, 1e-9);
  EXPECT_NEAR(*begins_below.measured()[0].gradient_ms, 1, 1e-9);
}

TEST(UpdateTimes, TellWhatAFurtherGradientAdds) {
  UpdateTimes times;
  for (int i = 1; i <= 9; ++i) {
    const int members = 1 + i % 4;
    times.add(update(0, 60 + 7 * (members - 1), members));
  }
  const auto measured = times.measured();
  ASSERT_EQ(measured.size(), 1u);
  ASSERT_TRUE(measured[0].gradient_ms);
  EXPECT_NEAR(measured[0].update_ms, 60, 1e-6);
  EXPECT_NEAR(*measured[0].gradient_ms, 7, 1e-6);
}

}  // namespace
}  // namespace paceline::report
