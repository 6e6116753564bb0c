#include "paceline/tools/ui/traffic.h"

#include <gtest/gtest.h>

#include "paceline/records/stats/testing/moments.h"

namespace paceline::ui {
namespace {

using report::testing::at;

TEST(TrafficTest, RatesAreThoseSinceTheReportBefore) {
  Traffic traffic;
  const auto look = [&](double s, std::int64_t few, std::int64_t many) {
    traffic.look({{at(s), "server0", 100, {{"server1", "gradients", few}, {"server1", "weights", many}}},
                  {at(s), "w0", 300, {}}});
  };
  look(1, 10, 1000);
  EXPECT_EQ(traffic.links().at(0).bytes, 1000);
  EXPECT_EQ(traffic.links().at(0).bytes_per_s, 0);
  look(3, 30, 1000);
  look(3, 30, 1000);
  EXPECT_EQ(traffic.links().at(0).kind, "gradients");
  EXPECT_NEAR(traffic.links().at(0).bytes_per_s, 10, 1e-9);
  EXPECT_EQ(traffic.links().at(1).bytes_per_s, 0);
  EXPECT_EQ(traffic.memory().at(0).process, "w0");
  look(2, 40, 1000);  // a clock that went back
  EXPECT_EQ(traffic.links().at(1).bytes_per_s, 0);
}

TEST(TrafficTest, AProcessThatReportsNoMoreIsGone) {
  Traffic traffic;
  const auto look = [&](double here_s, double other_s) {
    traffic.look({{at(here_s), "w0", 100, {}}, {at(other_s), "w1", 300, {{"server0", "gradients", 100}}}});
  };
  const auto gone = [&] { return traffic.memory().size() == 1 && traffic.memory().at(0).process == "w0"; };
  look(100, 99);
  look(110, 109);
  look(120, 109);
  EXPECT_FALSE(gone());
  look(141, 109);
  EXPECT_TRUE(gone());
  EXPECT_EQ(traffic.links().at(0).bytes_per_s, 0);
  look(142, 142);
  EXPECT_FALSE(gone()) << "it came back";
  look(20, 142);  // the run was resumed, and its clock begins at an earlier time
  EXPECT_FALSE(gone());
  look(51, 142);
  EXPECT_TRUE(gone());
  // a page that is opened later
  Traffic later;
  later.look({{at(51), "w0", 100, {}}, {at(9), "w1", 300, {}}});
  EXPECT_EQ(later.memory().size(), 1);
}

}  // namespace
}  // namespace paceline::ui
