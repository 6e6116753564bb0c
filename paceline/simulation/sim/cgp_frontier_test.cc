// CGP's patience at every size: its replicas wait for no more than that share of their iterations, and its
// gradients are less late than those of lone updates. Updates take no time here.
#include <cmath>
#include <string>
#include <variant>

#include <gtest/gtest.h>

#include "paceline/decisions/policy/policy_spec.h"
#include "paceline/simulation/sim/simulation.h"
#include "paceline/simulation/sim/virtual_cluster.h"

namespace paceline::sim {
namespace {

// The mean delay of gradients in bulk rounds. No replica waits after a release, so each commit makes all
// replicas but its members later by its share: Σ k·(N − k)/N, over all gradients Σ k.
class MeanDelay final : public control::RunListener {
 public:
  explicit MeanDelay(std::size_t replicas) : replicas_(static_cast<double>(replicas)) {}
  void on_fact(const control::Fact&) override {}
  void on_evaluated(const control::Evaluated&) override {}
  void on_order(Time, const control::Order& order) override {
    const auto* commit = std::get_if<control::CommitRecord>(&order);
    if (commit == nullptr) return;
    const auto k = static_cast<double>(commit->members.size());
    gradients_ += k;
    late_ += k * (replicas_ - k) / replicas_;
  }
  double mean() const { return late_ / gradients_; }

 private:
  const double replicas_;
  double gradients_ = 0;
  double late_ = 0;
};

struct Outcome {
  double rate;   // iterations a second
  double delay;  // bulk rounds
};

// 200 iterations of each replica.
Outcome outcome(ClusterModel cluster, const std::string& policy) {
  Scenario scenario;
  const std::size_t replicas = cluster.places.size();
  scenario.iterations = static_cast<std::int64_t>(200 * replicas);
  scenario.cluster = std::move(cluster);
  MeanDelay delay(replicas);
  VirtualCluster run(scenario.cluster, controller_config(scenario),
                     policy::make_policy(policy::parse_policy(policy).value()),
                     {.listeners = {&delay}, .stop_after_iterations = scenario.iterations});
  EXPECT_TRUE(run.run_until_over().ok());
  EXPECT_FALSE(run.broken());
  return {static_cast<double>(scenario.iterations) / to_seconds(run.now()), delay.mean()};
}

// Replicas of 1 s to `slowest` seconds, evenly spread.
ClusterModel cluster(std::size_t replicas, double slowest, double jitter) {
  ClusterModel cluster;
  for (std::size_t i = 0; i < replicas; ++i) {
    PlaceModel place;
    place.compute_ms =
        1000 * (1 + (slowest - 1) * static_cast<double>(i) / static_cast<double>(replicas - 1));
    place.unevenness.jitter = jitter;
    cluster.places.push_back(place);
  }
  return cluster;
}

class CgpFrontier : public ::testing::TestWithParam<std::size_t> {};

TEST_P(CgpFrontier, EqualReplicasLoseATwentiethAndMostOfThemGoTogether) {
  const ClusterModel equal = cluster(GetParam(), 1, 0.1);
  const Outcome asp = outcome(equal, "asp");
  const Outcome cgp = outcome(equal, "cgp:patience=0.05");
  EXPECT_GT(cgp.rate, 0.945 * asp.rate);
  EXPECT_LT(cgp.delay, 0.78);
  EXPECT_NEAR(asp.delay, 1 - 1 / static_cast<double>(GetParam()), 1e-9);
}

TEST_P(CgpFrontier, ATenthBuysMoreAndIsTheDefault) {
  const ClusterModel equal = cluster(GetParam(), 1, 0.1);
  const Outcome cgp = outcome(equal, "cgp");
  EXPECT_GT(cgp.rate, 0.9 * outcome(equal, "asp").rate);
  EXPECT_LT(cgp.delay, 0.45);
}

TEST_P(CgpFrontier, UnequalReplicasLoseNoMore) {
  const ClusterModel mixed = cluster(GetParam(), 4, 0.05);
  const Outcome asp = outcome(mixed, "asp");
  const Outcome cgp = outcome(mixed, "cgp:patience=0.05");
  EXPECT_GT(cgp.rate, 0.945 * asp.rate);
  EXPECT_LT(cgp.delay, asp.delay - 0.08);
}

TEST_P(CgpFrontier, NoMoreIsPaidThanTheDelayAskedForCosts) {
  if (GetParam() < 4) return;  // lone updates of two are no later than that
  const ClusterModel equal = cluster(GetParam(), 1, 0.1);
  const Outcome cgp = outcome(equal, "cgp:patience=0.2:d=0.5");
  EXPECT_NEAR(cgp.delay, 0.47, 0.1);
  EXPECT_GT(cgp.rate, 0.9 * outcome(equal, "asp").rate);
}

INSTANTIATE_TEST_SUITE_P(Replicas, CgpFrontier, ::testing::Values(2, 4, 8, 16, 32, 64, 128));

TEST(CgpPatience, NoneIsAspWhereUpdatesTakeNoTime) {
  for (const double slowest : {1.0, 4.0}) {
    const ClusterModel replicas = cluster(8, slowest, 0.1);
    const Outcome asp = outcome(replicas, "asp");
    const Outcome cgp = outcome(replicas, "cgp:patience=0");
    EXPECT_EQ(cgp.rate, asp.rate);
    EXPECT_EQ(cgp.delay, asp.delay);
  }
}

// All members of a larger group wait for its longer update: that is paid from the purse as well.
TEST(CgpPatience, LosesNoMoreThanItsShareWhereUpdatesOfLargeGroupsTakeLonger) {
  ClusterModel equal = cluster(8, 1, 0.1);
  equal.servers.update = {.update_ms = 250, .gradient_ms = 50};
  const Outcome none = outcome(equal, "cgp:patience=0");
  EXPECT_GT(outcome(equal, "cgp").rate, 0.88 * none.rate);
  EXPECT_GT(outcome(equal, "cgp:patience=0.05").rate, 0.93 * none.rate);
}

// Replicas that are released together and come together cost nothing to wait for.
TEST(CgpPatience, ReplicasWithoutJitterFallIntoStep) {
  ClusterModel even = cluster(8, 1, 0);
  for (std::size_t i = 0; i < even.places.size(); ++i)
    even.slowdowns.push_back({.device = static_cast<std::int64_t>(i),
                              .at_s = 0,
                              .until_s = 0.5,
                              .factor = 1 + 0.1 * static_cast<double>(i)});
  EXPECT_LT(outcome(even, "cgp").delay, 0.2);
  EXPECT_GT(outcome(even, "cgp").rate, 0.99 * outcome(even, "asp").rate);
}

}  // namespace
}  // namespace paceline::sim
