#include "paceline/processes/coordinator/order_log.h"

#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace paceline::coordinator {
namespace {

class OrderLogTest : public testing::Test {
 protected:
  void apply(std::int64_t version) {
    wire::ServerOrder order;
    order.mutable_apply()->set_version(version);
    log_.told(order);
  }
  void map(std::int32_t replica) {
    wire::ServerOrder order;
    order.mutable_map_gradient()->set_replica(replica);
    log_.told(order);
  }
  void unmap(std::int32_t replica) {
    wire::ServerOrder order;
    order.mutable_unmap_gradient()->set_replica(replica);
    log_.told(order);
  }
  void keep(std::int64_t version) {
    wire::ServerOrder order;
    order.mutable_keep()->set_version(version);
    log_.told(order);
  }
  void write(std::int64_t version) {
    wire::ServerOrder order;
    order.mutable_write_checkpoint()->set_version(version);
    log_.told(order);
  }
  void drop(std::int64_t version, bool checkpoint) {
    wire::ServerOrder order;
    order.mutable_drop()->set_version(version);
    order.mutable_drop()->set_checkpoint(checkpoint);
    log_.told(order);
  }
  std::string since(std::int64_t version) const {
    std::string words;
    for (const wire::ServerOrder& order : log_.since(Version(version))) {
      if (order.has_apply()) words += fmt::format("apply {} ", order.apply().version());
      if (order.has_map_gradient()) words += fmt::format("map {} ", order.map_gradient().replica());
      if (order.has_unmap_gradient()) words += fmt::format("unmap {} ", order.unmap_gradient().replica());
      if (order.has_keep()) words += fmt::format("keep {} ", order.keep().version());
      if (order.has_drop() || order.has_write_checkpoint()) words += "other ";
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

}  // namespace
}  // namespace paceline::coordinator
