#include "paceline/base/host_port.h"

#include <gtest/gtest.h>

namespace paceline {
namespace {

TEST(HostPort, AnAddressWithColonsHasBrackets) {
  EXPECT_EQ(host_port("10.0.0.2", "7461"), "10.0.0.2:7461");
  EXPECT_EQ(host_port("node1", "7461"), "node1:7461");
  EXPECT_EQ(host_port("fd00::2", "7461"), "[fd00::2]:7461");
  EXPECT_EQ(host_port("[fd00::2]", "7461"), "[fd00::2]:7461");
  EXPECT_TRUE(look_up(host_port("::1", "7461"), AI_NUMERICHOST).ok());
}

}  // namespace
}  // namespace paceline
