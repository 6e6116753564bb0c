// Which stages are told to talk over which links, without any process.
#include "paceline/coordinator/stage_links.h"

#include <set>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/coordinator/worker_orders.h"

namespace paceline::coordinator {
namespace {

using ::testing::ElementsAre;

std::vector<bool> there(const std::vector<std::optional<wire::StageLink>>& links) {
  std::vector<bool> is;
  for (const auto& one : links) is.push_back(one.has_value());
  return is;
}

std::vector<HostPlace> on_hosts(const std::vector<std::int32_t>& numbers) {
  std::vector<HostPlace> hosts;
  for (const std::int32_t number : numbers) hosts.emplace_back(number);
  return hosts;
}

// Each another one.
std::string new_key() {
  static int made = 0;
  return fmt::format("key number {:05}", ++made);
}

TEST(StageLinks, AreBetweenHostsOnly) {
  const StageLinks one = stage_links(ReplicaId(3), on_hosts({2, 2, 2}), new_key);
  EXPECT_THAT(there(one.previous), ElementsAre(false, false, false));
  EXPECT_THAT(there(one.home), ElementsAre(false, false, false));
  const StageLinks there_and_back = stage_links(ReplicaId(3), on_hosts({0, 0, 1, 1, 0, 2}), new_key);
  EXPECT_THAT(there(there_and_back.previous), ElementsAre(false, false, true, false, true, true));
  EXPECT_THAT(there(there_and_back.home), ElementsAre(false, false, true, true, false, true));
}

TEST(StageLinks, HaveNamesAndKeysOfTheirOwn) {
  std::set<std::string> names, keys;
  for (const int replica : {1, 2}) {
    const StageLinks links = stage_links(ReplicaId(replica), on_hosts({0, 1, 2}), new_key);
    for (const auto& list : {links.previous, links.home}) {
      for (const auto& link : list) {
        if (!link) continue;
        names.insert(link->name());
        keys.insert(link->send_key());
        keys.insert(link->receive_key());
        EXPECT_EQ(link->send_key().size(), 16u);
      }
    }
  }
  EXPECT_EQ(names.size(), 8u);
  EXPECT_EQ(keys.size(), 16u);
}

Worker worker(const char* name) {
  return Worker{.peer = {}, .name = name, .attached = {}, .replica = {}, .left = {}, .heard = PhiAccrual({})};
}

// Both ends of each link are told the same name, each other's keys, and the one that connects where.
TEST(StageLinks, AreSaidToBothEnds) {
  Worker a = worker("a"), b = worker("b"), c = worker("c");
  a.attached.emplace().set_gradient_path("a's");
  LiveReplica replica;
  replica.stages = {&a, &b, &c};
  replica.links = stage_links(replica.id, on_hosts({0, 1, 1}), new_key);
  const planner::Plan plan{{{{0, 1, 2}, {3, 4}, 12}}, 2};
  std::vector<wire::Role> roles;
  for (const char* stage : {"first", "second", "third"}) {
    roles.push_back(role_order(replica, plan).role());
    wire::RoleTaken& taken = replica.taken.emplace_back();
    taken.set_next_path(std::string(stage) + "'s channel");
    taken.set_address(std::string(stage) + "'s address");
  }
  EXPECT_EQ(roles[0].gradient_path(), "a's");
  EXPECT_EQ(roles[1].gradient_path() + roles[2].gradient_path(), "") << "on another host";
  EXPECT_EQ(roles[1].previous_path(), "");
  EXPECT_EQ(roles[2].previous_path(), "second's channel");
  EXPECT_FALSE(roles[0].has_previous() || roles[0].has_home() || roles[1].has_next() ||
               roles[2].has_previous());
  const auto same = [](const wire::StageLink& listens, const wire::StageLink& connects) {
    EXPECT_EQ(listens.name(), connects.name());
    EXPECT_EQ(listens.send_key(), connects.receive_key());
    EXPECT_EQ(listens.receive_key(), connects.send_key());
    EXPECT_NE(listens.send_key(), listens.receive_key());
    EXPECT_EQ(listens.address(), "");
    EXPECT_EQ(connects.address(), "first's address");
  };
  same(roles[0].next(), roles[1].previous());
  ASSERT_EQ(roles[0].gradients_size(), 2);
  same(roles[0].gradients(0), roles[1].home());
  same(roles[0].gradients(1), roles[2].home());
  // Each knows whom it sends what.
  const auto whom = [](const wire::StageLink& link) { return link.to() + " " + link.carries(); };
  EXPECT_EQ(whom(roles[0].next()), "b activations");
  EXPECT_EQ(whom(roles[1].previous()), "a activations");
  EXPECT_EQ(whom(roles[2].home()), "a gradients");
  EXPECT_EQ(whom(roles[0].gradients(1)), "c gradients");
}

// On a host each.
TEST(StageLinks, SayWhoIsAtTheOtherEnd) {
  Worker a = worker("a"), b = worker("b"), c = worker("c");
  a.attached.emplace();
  LiveReplica replica;
  replica.stages = {&a, &b, &c};
  replica.links = stage_links(replica.id, on_hosts({0, 1, 2}), new_key);
  replica.taken.resize(2);
  const wire::Role last = role_order(replica, {{{{0, 1, 2}, {3, 4}, 12}}, 2}).role();
  EXPECT_EQ(last.previous().to(), "b");
  EXPECT_EQ(last.home().to(), "a");
}

}  // namespace
}  // namespace paceline::coordinator
