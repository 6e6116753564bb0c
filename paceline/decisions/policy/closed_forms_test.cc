// Rates that are known on paper: two replicas at steady intervals of 1.0 s and 2.3 s, communication free. A
// policy that bounds the gap settles at 2 / 2.3 = 0.870 iterations a second; one that does not can come to
// 1/1.0 + 1/2.3 = 1.435.
#include <array>
#include <cstdint>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "paceline/base/rng.h"
#include "paceline/decisions/policy/testing/checked_policy.h"

namespace paceline::policy {
namespace {

using policy::testing::CheckedPolicy;

struct Outcome {
  double rate;  // iterations finished a second, both replicas together
  std::int64_t largest_gap;
};

Outcome run(const char* text, int iterations = 4000) {
  const std::array<Duration, 2> intervals = {from_seconds(1.0), from_seconds(2.3)};
  std::array<Time, 2> due{};
  CheckedPolicy policy(parse_policy(text).value());
  const auto follow = [&](Time now, const std::vector<Order>& orders) {
    for (const Order& order : orders) {
      const auto* release = std::get_if<Release>(&order);
      if (release == nullptr) continue;
      const auto id = static_cast<std::size_t>(release->replica.value());
      due[id] = now + intervals[id];
    }
  };
  for (int id = 0; id < 2; ++id) follow(Time{}, policy.join(ReplicaId(id), Time{}));
  Time now{};
  for (int done = 0; done < iterations; ++done) {
    const bool first =
        policy.computing(ReplicaId(0)) && (!policy.computing(ReplicaId(1)) || due[0] <= due[1]);
    now = first ? due[0] : due[1];
    follow(now, policy.ready(ReplicaId(first ? 0 : 1), now));
  }
  EXPECT_EQ(policy.broken(), "") << text;
  return {iterations / to_seconds(now), policy.largest_gap()};
}

// Iterations a second of `replicas` replicas, whose iterations take as long as `seconds` draws.
double mixed_rate(const char* text, int replicas, double (*seconds)(Rng&)) {
  constexpr int kIterations = 20'000;
  Rng rng(1);
  std::vector<Time> due(static_cast<std::size_t>(replicas));
  CheckedPolicy policy(parse_policy(text).value());
  const auto follow = [&](Time now, const std::vector<Order>& orders) {
    for (const Order& order : orders) {
      if (const auto* release = std::get_if<Release>(&order))
        due[static_cast<std::size_t>(release->replica.value())] = now + from_seconds(seconds(rng));
    }
  };
  for (int id = 0; id < replicas; ++id) follow(Time{}, policy.join(ReplicaId(id), Time{}));
  Time now{};
  for (int done = 0; done < kIterations; ++done) {
    int next = -1;
    for (int id = 0; id < replicas; ++id) {
      const auto i = static_cast<std::size_t>(id);
      if (policy.computing(ReplicaId(id)) && (next < 0 || due[i] < due[static_cast<std::size_t>(next)]))
        next = id;
    }
    now = due[static_cast<std::size_t>(next)];
    follow(now, policy.ready(ReplicaId(next), now));
  }
  EXPECT_EQ(policy.broken(), "") << text;
  return kIterations / to_seconds(now);
}

constexpr double kSlowestSetsThePace = 2 / 2.3;
constexpr double kNobodyWaits = 1 / 1.0 + 1 / 2.3;

void expect_rate(const Outcome& outcome, double rate) { EXPECT_NEAR(outcome.rate, rate, 0.01 * rate); }

TEST(ClosedForms, BspGoesAtThePaceOfTheSlowest) {
  const Outcome outcome = run("bsp");
  expect_rate(outcome, kSlowestSetsThePace);
  EXPECT_EQ(outcome.largest_gap, 1);
}

TEST(ClosedForms, AspWaitsForNobody) {
  const Outcome outcome = run("asp");
  expect_rate(outcome, kNobodyWaits);
  EXPECT_GT(outcome.largest_gap, 1000);
}

TEST(ClosedForms, SspGoesAtThePaceOfTheSlowestInTheLongRun) {
  for (const auto& [text, gap] : {std::pair{"ssp:0", 1}, std::pair{"ssp:3", 4}, std::pair{"ssp:15", 16}}) {
    const Outcome outcome = run(text);
    expect_rate(outcome, kSlowestSetsThePace);
    EXPECT_EQ(outcome.largest_gap, gap) << text;
  }
}

TEST(ClosedForms, DsspGoesAtThePaceOfTheSlowestInTheLongRunAndStaysInItsRange) {
  const Outcome outcome = run("dssp:3-15");
  expect_rate(outcome, kSlowestSetsThePace);
  EXPECT_LE(outcome.largest_gap, 16);
  EXPECT_GT(outcome.largest_gap, 4);
}

// A gap that SSP of its upper end comes to, and SSP of its lower end does not.
TEST(ClosedForms, DsspReachesItsUpperEnd) {
  for (const auto& [text, gap] : {std::pair{"dssp:3-4", 5}, std::pair{"dssp:0-1", 2}})
    EXPECT_EQ(run(text).largest_gap, gap) << text;
}

double one_or_three(Rng& rng) { return rng.below(2) == 0 ? 1.0 : 3.0; }

// Shared machines: one iteration in ten takes two to five times longer.
double with_hiccups(Rng& rng) {
  const double usual = 1 + 0.1 * rng.uniform();
  return rng.below(10) == 0 ? usual * (2 + 3 * rng.uniform()) : usual;
}

// If different replicas are slow in turn, a wider range of thresholds waits less.
TEST(ClosedForms, DsspLiesBetweenSspOfItsTwoEndsWhereIntervalsAreMixed) {
  for (const auto& [text, lower, upper] :
       {std::tuple{"dssp:3-4", "ssp:3", "ssp:4"}, std::tuple{"dssp:0-1", "ssp:0", "ssp:1"}}) {
    const double rate = mixed_rate(text, 4, one_or_three);
    EXPECT_GT(rate, 1.005 * mixed_rate(lower, 4, one_or_three)) << text;
    EXPECT_LT(rate, mixed_rate(upper, 4, one_or_three)) << text;
  }
}

TEST(ClosedForms, DsspOfTransientSlownessIsAsFastAsItsUpperEndWhereItPasses) {
  const double rate = mixed_rate("dssp:3-15:transient", 8, with_hiccups);
  EXPECT_GT(rate, 1.1 * mixed_rate("ssp:3", 8, with_hiccups));
  EXPECT_GT(rate, 1.08 * mixed_rate("dssp:3-15", 8, with_hiccups));
  EXPECT_GT(rate, 0.99 * mixed_rate("ssp:15", 8, with_hiccups));
}

TEST(ClosedForms, DsspOfTransientSlownessIsItsLowerEndWhereItLasts) {
  const Outcome outcome = run("dssp:3-15:transient");
  expect_rate(outcome, kSlowestSetsThePace);
  EXPECT_EQ(outcome.largest_gap, 4);
}

// Ten iterations in 7 s: 4 and 2 to measure, 3 and 1 to a barrier at which the slow one waits 0.1 s.
TEST(ClosedForms, ElasticBspWaitsForTheRestOfAnIntervalOnceASuperstep) {
  expect_rate(run("elastic-bsp:5"), 10 / 7.0);
  EXPECT_GE(run("elastic-bsp:15").rate, 1.42);
  EXPECT_GE(run("elastic-bsp:15:average").rate, 1.42);
}

TEST(ClosedForms, DsspAsPrintedIsAsp) {
  const Outcome outcome = run("dssp:3-15:printed");
  expect_rate(outcome, kNobodyWaits);
  EXPECT_GT(outcome.largest_gap, 1000);
}

}  // namespace
}  // namespace paceline::policy
