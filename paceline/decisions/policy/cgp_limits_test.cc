// CGP at its limits: it gives the orders of ASP if groups have one member, and those of BSP if a group has
// all replicas. The reasons are its own, and a timer may ring for nothing.
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include "paceline/decisions/policy/policy_spec.h"
#include "paceline/decisions/policy/testing/random_world.h"

namespace paceline::policy {
namespace {

using policy::testing::RandomWorld;
using policy::testing::tell;
using policy::testing::WorldFact;

std::string without_reasons(const std::vector<Order>& orders) {
  std::string text;
  for (const Order& order : orders) {
    if (const auto* commit = std::get_if<Commit>(&order)) {
      text += fmt::format(" commit {}:", commit->version);
      for (const Contribution& member : commit->members)
        text += fmt::format(" {}@{}", member.replica, member.clock);
    }
    if (const auto* release = std::get_if<Release>(&order))
      text += fmt::format(" release {} on {}", release->replica, release->version);
    if (const auto* discard = std::get_if<Discard>(&order))
      text += fmt::format(" discard {}@{}", discard->contribution.replica, discard->contribution.clock);
  }
  return text;
}

struct Limit {
  const char* cgp;
  const char* other;
};

class CgpLimits : public ::testing::TestWithParam<Limit> {};

TEST_P(CgpLimits, GiveTheSameOrdersOverRandomFacts) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    RandomWorld world(seed, seed % 3 == 0);
    const std::unique_ptr<SyncPolicy> cgp = make_policy(parse_policy(GetParam().cgp).value());
    const std::unique_ptr<SyncPolicy> other = make_policy(parse_policy(GetParam().other).value());
    Orders found(Version(0));
    Orders expected(Version(0));
    std::string history;
    for (int step = 0; step < 150; ++step) {
      const WorldFact fact = world.next();
      history += to_string(fact) + "\n";
      tell(*cgp, fact, found);
      tell(*other, fact, expected);
      ASSERT_EQ(without_reasons(found.list()), without_reasons(expected.list())) << "seed " << seed << "\n"
                                                                                 << history;
      world.follow(found.list());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Policies, CgpLimits,
                         ::testing::Values(Limit{"cgp:k_max=1", "asp"},
                                           Limit{"cgp:k_max=1:grouping=window", "asp"},
                                           Limit{"cgp:k_max=1:grouping=dp:wait_max=10ms", "asp"},
                                           Limit{"cgp:k_min=1000000:wait_max=forever", "bsp"},
                                           Limit{"cgp:k_min=1000000:wait_max=forever:grouping=dp", "bsp"},
                                           Limit{"cgp:S=0", "bsp"}, Limit{"cgp:S=0:wait_max=10ms", "bsp"},
                                           Limit{"cgp:S=0:k_max=2", "bsp"}, Limit{"cgp:S=0:k_max=1", "bsp"}));

TEST(CgpLimits, GroupsOfOneAreSummedAtTheServersAndLargerOnesAmongThemselves) {
  const auto one = make_policy(CgpSpec{.k_max = 1});
  EXPECT_EQ(one->reduction(), Reduction::kAtServers);
  EXPECT_FALSE(one->hears_of_completion());
  for (const CgpSpec& spec : {CgpSpec{}, CgpSpec{.k_max = 2}, CgpSpec{.staleness = 0}}) {
    EXPECT_EQ(make_policy(spec)->reduction(), Reduction::kInGroup);
    EXPECT_TRUE(make_policy(spec)->hears_of_completion());
  }
}

TEST(Cgp, ATimerThatRingsALittleEarlyIsAskedForAgain) {
  const auto s = [](double seconds) { return Time{} + from_seconds(seconds); };
  const auto cgp = make_policy(CgpSpec{.k_min = 3, .wait_max = from_seconds(0.5)});
  Orders orders(Version(0));
  for (int id = 0; id < 3; ++id) cgp->joined(s(0), {ReplicaId(id), Clock(0)}, orders);
  // commits alone, because no other replica is expected
  cgp->ready(s(1), {ReplicaId(0), Clock(1), Version(0), 1, {}}, orders);
  orders.clear();
  cgp->ready(s(1.8), {ReplicaId(1), Clock(1), Version(0), 1, {}}, orders);
  ASSERT_EQ(orders.list().size(), 1u);
  const Time at = std::get<WakeAt>(orders.list()[0]).at;
  orders.clear();
  cgp->timer(at - from_seconds(0.0001), orders);
  ASSERT_EQ(orders.list().size(), 1u);
  EXPECT_EQ(std::get<WakeAt>(orders.list()[0]).at, at);
  orders.clear();
  cgp->timer(at, orders);
  EXPECT_TRUE(std::holds_alternative<Commit>(orders.list().at(0)));
}

// Two equal replicas, of which the second is always ready a twentieth of an iteration later. Updates take no time.
class Pair {
 public:
  explicit Pair(SyncPolicy& cgp) : cgp_(cgp) {
    for (int id = 0; id < 2; ++id) cgp_.joined(now_, {ReplicaId(id), Clock(0)}, orders_);
  }

  // Whether one waits for the other, in this iteration of both.
  bool meet(double iteration_s, double late_s = 0.05) {
    clock_ = clock_.next();
    now_ += from_seconds(iteration_s);
    ready(0);
    now_ += from_seconds(late_s);
    return ready(1) == 2;
  }

 private:
  // The members of its commit; 0 if its group stays open.
  std::size_t ready(int id) {
    cgp_.ready(now_, {ReplicaId(id), clock_, orders_.latest(), 1, {}}, orders_);
    std::vector<Order> taken;
    orders_.move_to(taken);
    std::size_t members = 0;
    for (const Order& order : taken) {
      const auto* commit = std::get_if<Commit>(&order);
      if (commit == nullptr) continue;
      members = commit->members.size();
      cgp_.completed(now_, {commit->version}, orders_);
    }
    return members;
  }

  SyncPolicy& cgp_;
  Orders orders_{Version(0)};
  Time now_{};
  Clock clock_{0};
};

TEST(Cgp, APauseOfTheWholeRunIsPaidBackInAFewIterations) {
  const auto cgp = make_policy(CgpSpec{});
  Pair pair(*cgp);
  int met = 0;
  for (int i = 0; i < 100; ++i) met += pair.meet(1) ? 1 : 0;
  ASSERT_GT(met, 50);
  ASSERT_TRUE(pair.meet(1, 3600)) << "the run is stopped for an hour while the group is open";
  int alone = 0;
  while (alone < 1000 && !pair.meet(1)) ++alone;
  EXPECT_GT(alone, 0) << "the pause was a wait, too";
  EXPECT_LE(alone, 12);
}

}  // namespace
}  // namespace paceline::policy
