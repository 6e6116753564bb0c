// Which stages are told to talk over which links, without any process.
#include "paceline/decisions/coordinator/stage_links.h"

#include <set>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/decisions/coordinator/worker_orders.h"

namespace paceline::coordinator {
namespace {

using ::testing::ElementsAre;

using Link = std::optional<StageLink>;

std::vector<bool> there(const std::vector<Link>& links) {
  std::vector<bool> is;
  for (const auto& one : links) is.push_back(one.has_value());
  return is;
}

std::vector<bool> there(const std::vector<std::vector<Link>>& links) {
  std::vector<bool> is;
  for (const auto& one : links) is.push_back(!one.empty() && one.front().has_value());
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

// Stages on these numbers of devices.
std::vector<planner::PlannedStage> stages(const std::vector<std::size_t>& widths) {
  std::vector<planner::PlannedStage> all;
  std::size_t first = 0;
  for (const std::size_t width : widths) {
    const auto begin = static_cast<std::int32_t>(all.size());
    all.push_back({begin, begin + 1, first, width});
    first += width;
  }
  return all;
}

TEST(StageLinks, AreBetweenHostsOnly) {
  const StageLinks one = stage_links(ReplicaId(3), stages({1, 1, 1}), on_hosts({2, 2, 2}), new_key);
  EXPECT_THAT(there(one.previous), ElementsAre(false, false, false));
  EXPECT_THAT(there(one.home), ElementsAre(false, false, false));
  const StageLinks there_and_back =
      stage_links(ReplicaId(3), stages({1, 1, 1, 1, 1, 1}), on_hosts({0, 0, 1, 1, 0, 2}), new_key);
  EXPECT_THAT(there(there_and_back.previous), ElementsAre(false, false, true, false, true, true));
  EXPECT_THAT(there(there_and_back.home), ElementsAre(false, false, true, true, false, true));
}

TEST(StageLinks, AreBetweenDevicesThatHaveMicroBatchesInCommon) {
  // Two devices, then four: each of the four works for one of the two.
  const StageLinks links = stage_links(ReplicaId(3), stages({2, 4}), on_hosts({0, 1, 0, 0, 1, 1}), new_key);
  EXPECT_TRUE(links.previous[0].empty() && links.previous[1].empty());
  EXPECT_THAT(there(links.previous[2]), ElementsAre(false, false));
  EXPECT_THAT(there(links.previous[3]), ElementsAre(false, true));
  EXPECT_THAT(there(links.previous[4]), ElementsAre(true, false));
  EXPECT_THAT(there(links.previous[5]), ElementsAre(false, false));
  EXPECT_THAT(there(links.home), ElementsAre(false, true, false, false, true, true));
}

TEST(StageLinks, HaveNamesAndKeysOfTheirOwn) {
  std::set<std::string> names, keys;
  for (const int replica : {1, 2}) {
    const StageLinks links = stage_links(ReplicaId(replica), stages({2, 1}), on_hosts({0, 1, 2}), new_key);
    std::vector<std::vector<Link>> lists = links.previous;
    lists.push_back(links.home);
    for (const auto& list : lists) {
      for (const auto& link : list) {
        if (!link) continue;
        names.insert(link->name);
        keys.insert(link->send_key);
        keys.insert(link->receive_key);
        EXPECT_EQ(link->send_key.size(), 16u);
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
  a.attached.emplace().gradient_path = "a's";
  LiveReplica replica;
  const planner::Plan plan{{{{0, 1, 2}, {3, 4}, 12}}, 2};
  replica.workers = {&a, &b, &c};
  replica.stages = planner::stages_of(plan.replicas[0], 9);
  replica.links = stage_links(replica.id, replica.stages, on_hosts({0, 1, 1}), new_key);
  std::vector<Role> roles;
  for (const char* stage : {"first", "second", "third"}) {
    roles.push_back(next_role(replica, plan));
    RoleTaken& taken = replica.taken.emplace_back();
    taken.next_paths.push_back(std::string(stage) + "'s channel");
    taken.address = std::string(stage) + "'s address";
  }
  EXPECT_EQ(roles[1].gradient_path + roles[2].gradient_path, "") << "on another host";
  EXPECT_EQ(roles[1].previous[0].path, "");
  EXPECT_EQ(roles[2].previous[0].path, "second's channel");
  EXPECT_FALSE(roles[0].previous.size() > 0 || roles[0].home.has_value() ||
               roles[1].next[0].link.has_value() || roles[2].previous[0].link.has_value());
  const auto same = [](const StageLink& listens, const StageLink& connects) {
    EXPECT_EQ(listens.name, connects.name);
    EXPECT_EQ(listens.send_key, connects.receive_key);
    EXPECT_EQ(listens.receive_key, connects.send_key);
    EXPECT_NE(listens.send_key, listens.receive_key);
    EXPECT_EQ(listens.address, "");
    EXPECT_EQ(connects.address, "first's address");
  };
  same(roles[0].next[0].link.value(), roles[1].previous[0].link.value());
  ASSERT_EQ(roles[0].gradients.size(), 2u);
  same(roles[0].gradients[0].link.value(), roles[1].home->link.value());
  same(roles[0].gradients[1].link.value(), roles[2].home->link.value());
  // Each knows whom it sends what.
  const auto whom = [](const StageLink& link) { return link.to + " " + link.carries; };
  EXPECT_EQ(whom(roles[0].next[0].link.value()), "b activations");
  EXPECT_EQ(whom(roles[1].previous[0].link.value()), "a activations");
  EXPECT_EQ(whom(roles[2].home->link.value()), "a gradients");
  EXPECT_EQ(whom(roles[0].gradients[1].link.value()), "c gradients");
}

// Each device is on a host of its own.
TEST(StageLinks, SayWhoIsAtTheOtherEnd) {
  Worker a = worker("a"), b = worker("b"), c = worker("c");
  a.attached.emplace();
  LiveReplica replica;
  const planner::Plan plan{{{{0, 1, 2}, {3, 4}, 12}}, 2};
  replica.workers = {&a, &b, &c};
  replica.stages = planner::stages_of(plan.replicas[0], 9);
  replica.links = stage_links(replica.id, replica.stages, on_hosts({0, 1, 2}), new_key);
  replica.taken.resize(2);
  const Role last = next_role(replica, plan);
  EXPECT_EQ(last.previous[0].link->to, "b");
  EXPECT_EQ(last.home->link->to, "a");
}

// Two devices share the first stage and two the second; the second of each and the first are on different
// hosts, but for one.
TEST(StageLinks, DevicesThatShareAStageAreToldTheirTurnsAndWays) {
  Worker a = worker("a"), b = worker("b"), c = worker("c"), d = worker("d");
  a.attached.emplace().gradient_path = "a's";
  LiveReplica replica;
  const planner::Plan plan{{{{0, 1, 2, 3}, {0, 4, 4}, 12}}, 2};
  replica.workers = {&a, &b, &c, &d};
  replica.stages = planner::stages_of(plan.replicas[0], 9);
  replica.links = stage_links(replica.id, replica.stages, on_hosts({0, 0, 0, 1}), new_key);
  std::vector<Role> roles;
  for (const std::string device : {"a", "b", "c", "d"}) {
    roles.push_back(next_role(replica, plan));
    RoleTaken& taken = replica.taken.emplace_back();
    for (std::size_t i = 0; i < roles.back().next.size(); ++i)
      taken.next_paths.push_back(device + std::to_string(i));
    for (std::size_t i = 0; i < roles.back().gradients.size(); ++i)
      taken.gradient_paths.push_back(device + "'s part " + std::to_string(i));
    taken.address = device + "'s address";
  }
  for (std::size_t i = 0; i < roles.size(); ++i) {
    EXPECT_EQ(roles[i].stage, static_cast<int>(i / 2));
    EXPECT_EQ(roles[i].turn, static_cast<int>(i % 2));
    EXPECT_THAT(roles[i].cuts, ElementsAre(4));
    EXPECT_THAT(roles[i].widths, ElementsAre(2, 2));
  }
  // Both stages have two devices, so a works with c, and b with d.
  ASSERT_EQ(roles[0].next.size(), 1u);
  ASSERT_EQ(roles[1].next.size(), 1u);
  EXPECT_EQ(roles[0].next[0].turn, 0);
  EXPECT_EQ(roles[1].next[0].turn, 1);
  EXPECT_EQ(roles[2].previous[0].path, "a0");
  EXPECT_EQ(roles[3].previous[0].link->address, "b's address");
  // b and d send their parts, and c writes its own.
  ASSERT_EQ(roles[0].gradients.size(), 2u);
  EXPECT_EQ(roles[0].gradients[0].turn, 1);
  EXPECT_EQ(roles[1].home->path, "a's part 0");
  EXPECT_EQ(roles[2].gradient_path, "a's");
  EXPECT_FALSE(roles[2].home.has_value());
  EXPECT_EQ(roles[3].home->link->address, "a's address");
}

}  // namespace
}  // namespace paceline::coordinator
