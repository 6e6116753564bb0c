// How far a replica looks ahead after gradients of all kinds.
#include "paceline/decisions/control/lateness.h"

#include <gtest/gtest.h>

namespace paceline::control {
namespace {

// Eight equal replicas under ASP.
constexpr double kStaleness = 7, kDelay = 7.0 / 8;

Lateness usual() {
  Lateness lateness;
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(lateness.add(kStaleness, kDelay));
  return lateness;
}

TEST(Lateness, IsAMovingAverageThatBeginsWithTheFirst) {
  Lateness lateness;
  EXPECT_FALSE(lateness.mean());
  lateness.add(5, 1);
  EXPECT_EQ(lateness.mean()->staleness, 5);
  EXPECT_EQ(lateness.mean()->delay, 1);
  lateness.add(10, 2);
  EXPECT_DOUBLE_EQ(lateness.mean()->staleness, 6);
  EXPECT_DOUBLE_EQ(lateness.mean()->delay, 1.2);
}

// A worker's loader that hangs for a minute, while the others go on.
TEST(Lateness, IsTheSameAfterAGradientOnWhichItsReplicaStalled) {
  Lateness lateness = usual();
  EXPECT_FALSE(lateness.add(4200, 525));
  EXPECT_DOUBLE_EQ(lateness.mean()->staleness, kStaleness);
  EXPECT_DOUBLE_EQ(lateness.mean()->delay, kDelay);
  EXPECT_TRUE(lateness.add(kStaleness, kDelay));
  EXPECT_FALSE(lateness.add(4200, 525)) << "stalls are not in a row";
}

TEST(Lateness, FollowsAReplicaThatHasBecomeSlow) {
  Lateness lateness = usual();
  EXPECT_FALSE(lateness.add(80, 10));
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(lateness.add(80, 10));
  EXPECT_NEAR(lateness.mean()->delay, 10, 0.2);
  EXPECT_NEAR(lateness.mean()->staleness, 80, 1);
}

// In CGP's groups of all replicas nobody is late.
TEST(Lateness, FollowsAReplicaThatWasNeverLate) {
  Lateness lateness;
  lateness.add(0, 0);
  EXPECT_TRUE(lateness.add(28, 3.5));
  EXPECT_DOUBLE_EQ(lateness.mean()->delay, 0.7);
}

}  // namespace
}  // namespace paceline::control
