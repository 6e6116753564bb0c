#include "paceline/tools/cli/host_findings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline::cli {
namespace {

using ::testing::EndsWith;

// A container with two processors on a busy host with 64.
TEST(HostFindings, TheLoadOfAHostIsForAllItsProcessors) {
  const Finding busy = processors_finding(2, 64, 20.0);
  EXPECT_EQ(busy.health, Health::kOk);
  EXPECT_EQ(busy.says, "2 of 64, load 20.0");
  EXPECT_EQ(processors_finding(2, 64, 100.0).health, Health::kWarn);
  EXPECT_EQ(processors_finding(64, 64, 1.0).says, "64, load 1.0");
  EXPECT_EQ(processors_finding(4, 4, std::nullopt).says, "4");
}

TEST(HostFindings, AClockThatTheSystemDoesNotTellOfIsNotCalledSynchronized) {
  constexpr std::time_t kNow = 1'790'000'000;
  EXPECT_THAT(clock_finding(kNow, true).says, EndsWith(" UTC, synchronized"));
  EXPECT_EQ(clock_finding(kNow, false).health, Health::kWarn);
  EXPECT_THAT(clock_finding(kNow, std::nullopt).says, EndsWith(" UTC"));
  EXPECT_EQ(clock_finding(1'000, std::nullopt).health, Health::kFail);
}

}  // namespace
}  // namespace paceline::cli
