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
  const std::pair<const char*, const char*> kWrong[] = {{"127.0.0.1:65536", "a port that is too large"},
                                                        {"127.0.0.1:99999", "a port that is too large"},
                                                        {":99999", "a port that is too large"},
                                                        {"127.0.0.1:9999999999999", "too large"},
                                                        {"127.0.0.1:-1", "a port that is not a number"},
                                                        {"127.0.0.1:x", "a port that is not a number"},
                                                        {"127.0.0.1: 1", "a port that is not a number"},
                                                        {"127.0.0.1:", "no port after the colon"},
                                                        {":80", "no host before the colon"},
                                                        {"node1", "write HOST:PORT"}};
  for (const auto& [address, says] : kWrong) {
    const absl::Status status = look_up(address).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << address;
    EXPECT_NE(status.message().find(says), std::string::npos) << status;
  }
}

}  // namespace
}  // namespace paceline
