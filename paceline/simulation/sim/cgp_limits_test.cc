// Simulated runs of CGP at its limits are those of ASP and BSP: the same facts and orders at the same times,
// but for the reasons.
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include "paceline/base/overloaded.h"
#include "paceline/decisions/policy/policy_spec.h"
#include "paceline/simulation/sim/simulation.h"
#include "paceline/simulation/sim/testing/faulty.h"
#include "paceline/simulation/sim/virtual_cluster.h"

namespace paceline::sim {
namespace {

// The course of a run: who was ready, came and went when, and all orders but timers, without their reasons.
class Course final : public control::RunListener {
 public:
  // `fractions`: whether the fractions of commits belong to it.
  explicit Course(bool fractions) : fractions_(fractions) {}

  void on_fact(const control::Fact& fact) override {
    const std::string text = std::visit(
        Overloaded{
            [](const control::ReplicaReady& one) {
              return fmt::format("ready {}@{} on {}, {} ns", one.replica, one.clock, one.base,
                                 one.compute.count());
            },
            [](const control::ReplicaJoined& one) { return fmt::format("joined {}", one.replica); },
            [](const control::ReplicaLeft& one) { return fmt::format("left {}", one.replica); },
            [](const auto&) { return std::string(); },
        },
        fact.what);
    if (!text.empty()) facts.push_back(fmt::format("{}: {}", fact.at.time_since_epoch().count(), text));
  }
  void on_order(Time at, const control::Order& order) override {
    if (std::holds_alternative<control::WakeAt>(order)) return;
    orders.emplace_back(at, order);
    std::visit(Overloaded{
                   [this](control::CommitRecord& one) {
                     one.why = {};
                     if (!fractions_) one.fraction = 1;
                   },
                   [](control::Release& one) { one.why = {}; },
                   [](control::Discard& one) { one.why = {}; },
                   [](auto&) {},
               },
               orders.back().second);
  }
  void on_evaluated(const control::Evaluated&) override {}

  std::vector<std::string> facts;
  std::vector<std::pair<Time, control::Order>> orders;

 private:
  const bool fractions_;
};

Course course_of(const Scenario& scenario, const std::string& policy, bool fractions) {
  Course course(fractions);
  VirtualCluster cluster(scenario.cluster, controller_config(scenario),
                         policy::make_policy(policy::parse_policy(policy).value()), {.listeners = {&course}});
  EXPECT_TRUE(cluster.run_until_over().ok());
  EXPECT_FALSE(cluster.broken()) << *cluster.broken();
  return course;
}

void expect_same(const std::string& text, const std::string& one, const std::string& other,
                 bool fractions = true) {
  const Scenario fair = parse_scenario(text, "s.toml").value();
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    // The first in fair weather, the others with joins, leaves, crashes and slowdowns.
    const Scenario scenario = seed == 0 ? fair : testing::faulty(fair, seed, 400);
    const Course found = course_of(scenario, one, fractions);
    const Course expected = course_of(scenario, other, fractions);
    ASSERT_GE(expected.orders.size(), 100u);
    ASSERT_EQ(found.facts, expected.facts) << one << ", seed " << seed;
    ASSERT_TRUE(found.orders == expected.orders) << one << ", seed " << seed;
  }
}

constexpr char kUneven[] = R"(
samples = 4000
[[device]]
count = 3
compute_ms = 100
jitter = 0.2
batch = 8
[[device]]
count = 2
compute_ms = 350
jitter = 0.2
batch = 16
)";
constexpr char kNetwork[] = R"(
[model]
bytes = 25_000_000
[link]
gbps = 2.0
latency_us = 300
[server]
gbps = 4.0
)";

TEST(CgpLimits, GroupsOfOneAreAsp) { expect_same(kUneven, "cgp:k_max=1", "asp"); }

TEST(CgpLimits, GroupsOfOneAreAspThroughANetworkToo) {
  expect_same(std::string(kUneven) + kNetwork, "cgp:k_max=1", "asp");
}

// Through a network BSP's gradients go to the servers one by one, and a group's as their sum.
// A round of BSP counts as a whole update, even if replicas have left or the last batches are smaller. A group counts by
// its samples.
TEST(CgpLimits, AGroupOfAllIsBsp) {
  expect_same(kUneven, "cgp:k_min=1000000:wait_max=forever", "bsp", false);
  expect_same(kUneven, "cgp:S=0", "bsp", false);
}

}  // namespace
}  // namespace paceline::sim
