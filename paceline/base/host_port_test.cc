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

// The system would take the port modulo 65536.
TEST(HostPort, APortIsANumberUpTo65535) {
  EXPECT_TRUE(look_up("127.0.0.1:0").ok());
  EXPECT_TRUE(look_up("127.0.0.1:65535").ok());
  for (const char* address :
       {"127.0.0.1:65536", "127.0.0.1:99999", "127.0.0.1:-1", "127.0.0.1:", "127.0.0.1:x", "127.0.0.1: 1"})
    EXPECT_TRUE(absl::IsInvalidArgument(look_up(address).status())) << address;
}

}  // namespace
}  // namespace paceline
