#include "paceline/tools/cli/host_place.h"

#include <gtest/gtest.h>

namespace paceline::cli {
namespace {

std::string listens(const std::string& setting, std::int64_t rank, const std::string& address) {
  const auto job = config::parse_job("[network]\nlisten = \"" + setting +
                                         ":7461\"\ntoken_file = \"t\"\n"
                                         "security = \"none\"\n",
                                     "job.toml");
  launch::Placement placement;
  placement.rank = rank;
  placement.hosts = 2;
  placement.first_host = "node1";
  return listen_address(job.value(), placement, address);
}

TEST(HostPlace, EveryHostListensToTheFamilyOfItsAddress) {
  for (const std::int64_t rank : {0, 1}) {
    EXPECT_EQ(listens("0.0.0.0", rank, "10.0.0.2"), "0.0.0.0:7461") << rank;
    EXPECT_EQ(listens("0.0.0.0", rank, "fd00::1"), "[::]:7461") << rank;
    EXPECT_EQ(listens("[::]", rank, "10.0.0.2"), "[::]:7461") << rank;
  }
}

TEST(HostPlace, OtherHostsListenWhereTheFirstOneTellsTheOthers) {
  EXPECT_EQ(listens("10.0.0.1", 0, "10.0.0.1"), "10.0.0.1:7461");
  EXPECT_EQ(listens("10.0.0.1", 1, "10.0.0.2"), "10.0.0.2:7461");
}

}  // namespace
}  // namespace paceline::cli
