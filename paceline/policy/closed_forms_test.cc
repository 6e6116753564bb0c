// What is known on paper: two replicas at steady intervals of 1.0 s and 2.3 s, communication free. A policy
// that bounds the gap settles at 2 / 2.3 = 0.870 iterations a second; one that does not can come to 1/1.0 +
// 1/2.3 = 1.435.
#include <array>
#include <cstdint>

#include <gtest/gtest.h>

#include "paceline/policy/testing/checked_policy.h"

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
  EXPECT_LE(outcome.largest_gap, 15);
  EXPECT_GT(outcome.largest_gap, 4);
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
