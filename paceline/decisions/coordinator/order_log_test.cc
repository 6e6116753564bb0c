#include "paceline/decisions/coordinator/order_log.h"

#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "paceline/base/overloaded.h"

namespace paceline::coordinator {
namespace {

class OrderLogTest : public testing::Test {
 protected:
  void apply(std::int64_t version) { log_.told(Apply{.version = Version(version)}); }
  void map(std::int32_t replica) { log_.told(MapGradient{.replica = ReplicaId(replica)}); }
  void unmap(std::int32_t replica) { log_.told(UnmapGradient{ReplicaId(replica)}); }
  void keep(std::int64_t version, bool in_host = false) {
    log_.told(Keep{.version = Version(version), .in_host = in_host});
  }
  void write(std::int64_t version) { log_.told(WriteCheckpoint{Version(version), "dir"}); }
  void drop(std::int64_t version, bool checkpoint) { log_.told(Drop{Version(version), checkpoint}); }
  std::string since(std::int64_t version) const {
    std::string words;
    for (const ServerOrder& order : log_.since(Version(version))) {
      words += std::visit(Overloaded{
                              [](const Apply& one) { return fmt::format("apply {} ", one.version); },
                              [](const MapGradient& one) { return fmt::format("map {} ", one.replica); },
                              [](const UnmapGradient& one) { return fmt::format("unmap {} ", one.replica); },
                              [](const Keep& one) {
                                return fmt::format("keep {} {}", one.version, one.in_host ? "in host " : "");
                              },
                              [](const auto&) { return std::string("other "); },
                          },
                          order);
    }
    return words;
  }

  OrderLog log_{2, Version(0)};
};

TEST_F(OrderLogTest, GivesWhatIsMappedAndTheCommitsThatAreMissing) {
  map(0);
  map(1);
  for (const std::int64_t version : {1, 2, 3}) apply(version);
  unmap(0);
  apply(4);
  EXPECT_EQ(since(2), "map 0 map 1 apply 3 unmap 0 apply 4 ");
  EXPECT_EQ(since(4), "map 0 map 1 unmap 0 ");
}

TEST_F(OrderLogTest, ForgetsWhatAllServersHaveMade) {
  map(0);
  for (const std::int64_t version : {1, 2, 3}) apply(version);
  log_.made(ServerId(0), Version(3));
  EXPECT_TRUE(log_.reaches_back_to(Version(0)));
  log_.made(ServerId(1), Version(2));
  EXPECT_FALSE(log_.reaches_back_to(Version(1)));
  EXPECT_TRUE(log_.reaches_back_to(Version(2)));
  EXPECT_FALSE(log_.reaches_back_to(Version(4)));
  EXPECT_EQ(since(2), "map 0 apply 3 ");
}

TEST_F(OrderLogTest, KeepsVersionsAgainUntilTheyAreDropped) {
  apply(1);
  keep(1);
  write(1);
  apply(2);
  EXPECT_EQ(since(2), "keep 1 keep 1 ");
  drop(1, true);
  EXPECT_EQ(since(2), "keep 1 ");
  for (const int server : {0, 1}) log_.made(ServerId(server), Version(2));
  EXPECT_EQ(since(2), "keep 1 ");
  drop(1, false);
  EXPECT_EQ(since(2), "");
}

TEST_F(OrderLogTest, KeepsVersionsAgainInTheHostsMemory) {
  apply(1);
  keep(1, true);
  apply(2);
  EXPECT_EQ(since(1), "keep 1 in host apply 2 ");
}

}  // namespace
}  // namespace paceline::coordinator
