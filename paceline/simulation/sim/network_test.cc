#include "paceline/simulation/sim/network.h"

#include <vector>

#include <gtest/gtest.h>

#include "paceline/simulation/sim/simulation.h"

namespace paceline::sim {
namespace {

constexpr std::int64_t kBytes = 1'250'000;  // 1 ms at 10 Gb/s

Time ms(double value) { return Time{} + from_seconds(value / 1000); }

Port port(double gbps, double latency_us = 0) { return {.link = {gbps, latency_us}, .up = {}, .down = {}}; }

TEST(Network, NothingTakesTimeWithoutBytes) {
  Network network({}, 0);
  Port one = port(0.001, 1000);
  EXPECT_TRUE(network.free());
  EXPECT_EQ(network.latency(one), Duration::zero());
  EXPECT_EQ(network.push(one, ms(5)).end, ms(5));
}

TEST(Network, ATransferTakesAsLongAsItsSlowestPipe) {
  Network network({.count = 1, .gbps = 10, .colocated = false}, kBytes);
  Port fast = port(40);
  EXPECT_EQ(network.push(fast, ms(0)).end, ms(1));
  Port slow = port(1);
  EXPECT_EQ(network.push(slow, ms(100)).end, ms(110));
}

TEST(Network, LatencyIsAddedOnce) {
  Network network({}, kBytes);
  Port one = port(10, 250);
  EXPECT_EQ(network.push(one, ms(0)).end, ms(1.25));
  EXPECT_EQ(network.pull(one, ms(10), ms(0)).end, ms(11.25));
}

// Replicas that look ahead pull the directions of the weights too.
TEST(Network, APullWithDirectionsMovesTwiceAsMuch) {
  for (const bool colocated : {false, true}) {
    for (const std::size_t members : {2, 4}) {
      const config::ServerLinks servers{.count = 1, .gbps = 10, .colocated = colocated};
      Network without(servers, 2 * kBytes), with(servers, kBytes, true);
      std::vector<Port> ports(members), others(members);
      std::vector<Port*> group, other_group;
      for (std::size_t i = 0; i < members; ++i) {
        without.join(ports[i].link);
        with.join(others[i].link);
        group.push_back(&ports[i]);
        other_group.push_back(&others[i]);
      }
      const Transfer pull = without.pull_group(group, Time{}, Time{});
      EXPECT_EQ(with.pull_group(other_group, Time{}, Time{}).end, pull.end) << members;
      EXPECT_EQ(with.pull(others[0], pull.end, Time{}).end, without.pull(ports[0], pull.end, Time{}).end);
      const Time later = pull.end + from_seconds(1);
      EXPECT_LT(with.push_group(other_group, later).end, without.push_group(group, later).end) << members;
    }
  }
}

TEST(Network, PushesQueueForTheServersAndPullsDoNotWaitForPushes) {
  Network network({}, kBytes);
  Port a = port(10), b = port(10), c = port(10);
  EXPECT_EQ(network.push(a, ms(0)).end, ms(1));
  EXPECT_EQ(network.push(b, ms(0)).end, ms(2));
  EXPECT_EQ(network.pull(c, ms(0), ms(0)).end, ms(1));
}

TEST(Network, ASlowLinkDoesNotHoldTheServersUp) {
  Network network({}, kBytes);
  Port slow = port(1), fast = port(10);
  EXPECT_EQ(network.push(slow, ms(0)).end, ms(10));
  EXPECT_EQ(network.push(fast, ms(0)).end, ms(2));
}

TEST(Network, MoreServersTakeMore) {
  Network network({.count = 4, .gbps = 10, .colocated = false}, 4 * kBytes);
  Port one = port(1000);
  EXPECT_EQ(network.push(one, ms(0)).end, ms(1));
}

TEST(Network, APullEndsWhenTheWeightsAreCompleteAtTheEarliest) {
  Network network({}, kBytes);
  Port one = port(10);
  const Transfer pull = network.pull(one, ms(3), ms(9));
  EXPECT_EQ(pull.start, ms(3));
  EXPECT_EQ(pull.end, ms(9));
}

TEST(Network, WithAServerBesideEachReplicaAPartStaysAtHome) {
  Network network({.count = 1, .gbps = 10, .colocated = true}, 4 * kBytes);
  for (int i = 0; i < 4; ++i) network.join({10, 0});
  Port one = port(10);
  EXPECT_EQ(network.push(one, ms(0)).end, ms(3));
  network.leave({10, 0});
  network.leave({10, 0});
  network.leave({10, 0});
  EXPECT_EQ(network.push(one, ms(100)).end, ms(100));  // alone: nothing moves
}

// ---- Updates ----

Network updating(double update_ms, double gradient_ms, std::int64_t bytes = 0) {
  config::ServerLinks servers;
  servers.update = {.update_ms = update_ms, .gradient_ms = gradient_ms};
  return Network(servers, bytes);
}

TEST(NetworkUpdate, TakesNoTimeWhereNobodySaysHowLong) {
  Network network({}, 0);
  EXPECT_TRUE(network.instant());
  EXPECT_EQ(network.update(ms(3), ms(7), 5).end, ms(7));
  EXPECT_EQ(network.updates().count, 0);
  EXPECT_FALSE(updating(1, 0).instant());
  EXPECT_FALSE(updating(0, 1).instant());
}

TEST(NetworkUpdate, FollowsTheOneBefore) {
  Network network = updating(5, 2);
  EXPECT_EQ(network.update(ms(0), ms(0), 1).end, ms(5));
  const Transfer second = network.update(ms(1), ms(1), 3);
  EXPECT_EQ(second.start, ms(5));
  EXPECT_EQ(second.end, ms(14));
  EXPECT_EQ(network.update(ms(20), ms(20), 1).end, ms(25));
  EXPECT_EQ(network.updates().count, 3);
  EXPECT_EQ(network.updates().made, from_seconds(0.019));
  EXPECT_EQ(network.updates().queued, from_seconds(0.004));
}

// The updates wait for 1,326 years together, and a Duration is at most 292.
TEST(NetworkUpdate, WaitForMoreThanTheYearsOfADuration) {
  constexpr double kMsOfAYear = 365.0 * 24 * 3600 * 1000;
  Network network = updating(kMsOfAYear, 0);
  for (int i = 0; i < 52; ++i) network.update(ms(0), ms(0), 1);
  EXPECT_NEAR(to_seconds(network.updates().queued), 51 * 52 / 2 * kMsOfAYear / 1000, 1);
}

// Chunk by chunk: what takes longer, pushing or updating, says when it is complete.
TEST(NetworkUpdate, IsMadeWhileThePushComes) {
  Network network = updating(5, 0, kBytes);
  EXPECT_EQ(network.update(ms(0), ms(1), 1).end, ms(5));
  EXPECT_EQ(network.update(ms(10), ms(30), 1).end, ms(30));
}

// ---- Groups ----

struct Members {
  explicit Members(int count, double gbps, double latency_us = 0) : ports(count, port(gbps, latency_us)) {
    for (Port& one : ports) all.push_back(&one);
  }
  std::vector<Port> ports;
  std::vector<Port*> all;
};

TEST(GroupTransfer, IsALoneTransferForOneMember) {
  Network network({}, kBytes);
  Members group(1, 5, 250);
  EXPECT_EQ(network.push_group(group.all, ms(0)).end, ms(2.25));
  EXPECT_EQ(network.pull_group(group.all, ms(10), ms(0)).end, ms(12.25));
}

// Whatever the rates, and whatever servers carry before and after.
TEST(GroupTransfer, IsALoneTransferForOneMemberBesideOthers) {
  for (const bool colocated : {false, true}) {
    for (const double gbps : {1.0, 10.0, 100.0}) {
      for (const double server : {1.0, 10.0, 100.0}) {
        Network lone({.count = 1, .gbps = server, .colocated = colocated}, kBytes);
        Network grouped({.count = 1, .gbps = server, .colocated = colocated}, kBytes);
        Members ones(3, gbps, 250), groups(3, gbps, 250);
        for (int i = 0; i < 3; ++i) {
          lone.join(ones.ports[0].link);
          grouped.join(groups.ports[0].link);
        }
        for (int i = 0; i < 9; ++i) {
          const auto who = static_cast<std::size_t>(i % 3);
          const std::vector<Port*> group{groups.all[who]};
          const Time now = ms(16 * i);
          const Transfer push = lone.push(ones.ports[who], now);
          const Transfer together = grouped.push_group(group, now);
          EXPECT_EQ(together.start, push.start) << gbps << ", " << server << ", " << i;
          EXPECT_EQ(together.end, push.end) << gbps << ", " << server << ", " << i;
          const Transfer pull = lone.pull(ones.ports[who], push.start, push.end);
          EXPECT_EQ(grouped.pull_group(group, push.start, push.end).end, pull.end)
              << gbps << ", " << server << ", " << i;
        }
      }
    }
  }
}

TEST(GroupTransfer, TakesNoTimeWithoutBytes) {
  Network network({}, 0);
  Members group(3, 1, 250);
  EXPECT_EQ(network.push_group(group.all, ms(5)).end, ms(5));
}

TEST(GroupTransfer, TheServersTakeOneGradientAGroup) {
  Network network({}, kBytes);
  Members one(3, 10), other(4, 10), third(2, 10);
  EXPECT_EQ(network.push_group(one.all, ms(0)).end, ms(1));
  EXPECT_EQ(network.push_group(other.all, ms(0)).end, ms(2));
  EXPECT_EQ(network.push_group(third.all, ms(0)).end, ms(3));
  // The servers give one copy of the weights.
  EXPECT_EQ(network.pull_group(one.all, ms(10), ms(0)).end, ms(11));
  EXPECT_EQ(network.pull_group(other.all, ms(10), ms(0)).end, ms(12));
}

TEST(GroupTransfer, TakesAsLongAsItsSlowestLinkAndAHopAMember) {
  Network network({}, kBytes);
  Members group(3, 10, 250);
  group.ports[1].link.gbps = 2;
  EXPECT_EQ(network.push_group(group.all, ms(0)).end, ms(5.75));
  EXPECT_EQ(network.pull_group(group.all, ms(20), ms(0)).end, ms(25.75));
}

TEST(GroupTransfer, EndsWhenTheWeightsAreCompleteAtTheEarliest) {
  Network network({}, kBytes);
  Members group(3, 10);
  EXPECT_EQ(network.pull_group(group.all, ms(3), ms(9)).end, ms(9));
}

TEST(GroupTransfer, APullWaitsForTheGroupsOwnPushInItsLinks) {
  Network network({}, kBytes);
  Members group(4, 10);
  network.push_group(group.all, ms(0));
  // Each direction carries 2(k − 1)/k + 1/k times the bytes.
  EXPECT_EQ(network.pull_group(group.all, ms(0), ms(1)).end, ms(1.75));
}

report::Summary simulated(const std::string& text, const std::string& policy) {
  return simulate(parse_scenario(text, "s.toml").value(), policy::parse_policy(policy).value())
      .value()
      .summary;
}

// 25 MB at 1 Gb/s: 0.2 s a transfer. Eight replicas of 0.4 s.
constexpr char kScarce[] = R"(
iterations = 4000
[model]
bytes = 25_000_000
[link]
gbps = 1.0
latency_us = 0
[server]
gbps = 1.0
[[device]]
count = 8
compute_ms = 400
)";

double rate(const report::Summary& summary) {
  return static_cast<double>(summary.iterations) / summary.elapsed_s;
}

TEST(ScarceServers, BspTakesTheSlowestIterationAndOneTransferAReplica) {
  // Pushes and pulls go on at once, chunk by chunk: 8 pulls of 0.2 s from the moment of the last push.
  EXPECT_NEAR(rate(simulated(kScarce, "bsp")), 8 / (0.4 + 8 * 0.2), 0.02);
}

TEST(ScarceServers, AspTakesWhatTheServersTake) {
  EXPECT_NEAR(rate(simulated(kScarce, "asp")), 1 / 0.2, 0.02);
}

TEST(ScarceServers, OneGroupOfAllTakesARingAndItsPartOfThePush) {
  EXPECT_NEAR(rate(simulated(kScarce, "cgp:S=0")), 8 / (0.4 + 0.2 * (2.0 * 7 / 8 + 1.0 / 8)), 0.05);
}

// One replica of 1 s, which pushes 100 MB in 0.8 s; the server takes them in 8 ms.
constexpr char kLone[] = R"(
iterations = 400
[model]
bytes = 100_000_000
[link]
gbps = 1.0
[server]
gbps = 100.0
[[device]]
compute_ms = 1000
)";

TEST(FastServers, ALoneGroupPullsWhileItPushes) {
  for (const char* policy : {"asp", "bsp", "cgp", "cgp:k_max=1", "groups:1:asp"})
    EXPECT_NEAR(rate(simulated(kLone, policy)), 1 / 1.8, 0.002) << policy;
}

TEST(FastServers, ALoneGroupPullsWhileItPushesToServersBesideReplicasToo) {
  std::string beside = kLone;
  beside.replace(beside.find("[server]\n"), 9, "[server]\ncolocated = true\n");
  for (const int ms : {1900, 3100, 5300}) beside += fmt::format("[[device]]\ncompute_ms = {}\n", ms);
  // Which transfers meet is not the same, as a group pushes when it is ordered.
  const double expected = rate(simulated(beside, "asp"));
  for (const char* policy : {"cgp:k_max=1", "groups:1+1+1+1:asp"})
    EXPECT_NEAR(rate(simulated(beside, policy)), expected, 0.02 * expected) << policy;
}

TEST(ScarceServers, NaturalGroupsGoMuchFasterThanLoneUpdates) {
  EXPECT_GT(rate(simulated(kScarce, "cgp")), 1.5 * rate(simulated(kScarce, "asp")));
}

TEST(ScarceServers, BspOverServersBesideReplicasIsARing) {
  // 2(P − 1)/P of the bytes through each link, as in a ring's reduce-scatter and all-gather.
  std::string beside = kScarce;
  beside.replace(beside.find("[server]\n"), 9, "[server]\ncolocated = true\n");
  EXPECT_NEAR(rate(simulated(beside, "bsp")), 8 / (0.4 + 2 * 0.2 * 7 / 8), 0.05);
}

}  // namespace
}  // namespace paceline::sim
