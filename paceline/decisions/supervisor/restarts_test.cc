#include "paceline/decisions/supervisor/restarts.h"

#include <gtest/gtest.h>

namespace paceline::supervisor {
namespace {

TEST(Restarts, GivesUpWhenNothingNewerIsSaved) {
  Restarts restarts;
  for (int i = 0; i < Restarts::kMost; ++i) EXPECT_TRUE(restarts.again(std::nullopt)) << i;
  EXPECT_FALSE(restarts.again(std::nullopt));
}

TEST(Restarts, ANewerCheckpointIsProgress) {
  Restarts restarts;
  for (int round = 0; round < 10; ++round) {
    for (int i = 0; i < Restarts::kMost; ++i) EXPECT_TRUE(restarts.again(Version(round))) << round;
  }
  EXPECT_FALSE(restarts.again(Version(9)));
}

TEST(Restarts, TheFirstCheckpointIsProgressToo) {
  Restarts restarts;
  for (int i = 0; i < Restarts::kMost; ++i) EXPECT_TRUE(restarts.again(std::nullopt));
  for (int i = 0; i < Restarts::kMost; ++i) EXPECT_TRUE(restarts.again(Version(0)));
  EXPECT_FALSE(restarts.again(Version(0)));
}

}  // namespace
}  // namespace paceline::supervisor
