// Tests which replicas are expected when, given their earlier intervals.
#include "paceline/decisions/policy/arrivals.h"

#include <algorithm>
#include <functional>

#include <gtest/gtest.h>

#include "paceline/base/rng.h"
#include "paceline/decisions/policy/testing/short_names.h"

namespace paceline::policy {
namespace {

using policy::testing::kA;
using policy::testing::kB;
using policy::testing::kC;
using policy::testing::s;

// Iterations of these lengths, one after the other, from `now` on. The end of the last.
Time iterate(Arrivals& arrivals, ReplicaId replica, Time now, std::initializer_list<double> intervals) {
  for (const double interval : intervals) {
    arrivals.released(replica, now);
    now += from_seconds(interval);
    arrivals.ready(replica, now);
  }
  return now;
}

TEST(Arrivals, DoNotExpectAReplicaThatWasNeverReady) {
  Arrivals arrivals;
  arrivals.released(kA, s(0));
  EXPECT_TRUE(arrivals.coming(s(0), 9).empty());
}

TEST(Arrivals, DoNotExpectAReplicaThatWaits) {
  Arrivals arrivals;
  iterate(arrivals, kA, s(0), {1, 1});
  EXPECT_TRUE(arrivals.coming(s(2), 9).empty());
}

TEST(Arrivals, AnEvenOneIsExpectedAfterItsIntervalWithAHundredthForSigma) {
  Arrivals arrivals;
  arrivals.released(kA, iterate(arrivals, kA, s(0), {2, 2, 2}));
  const auto coming = arrivals.coming(s(6), 1);
  ASSERT_EQ(coming.size(), 1u);
  EXPECT_NEAR(to_seconds(coming[0].at), 8, 1e-8);
  EXPECT_NEAR(to_seconds(coming[0].latest), 8.04, 1e-8);
}

TEST(Arrivals, AreTheMedianAndTheMedianDifferenceOfTheLastFive) {
  Arrivals arrivals;
  arrivals.released(kA, iterate(arrivals, kA, s(0), {50, 1, 3, 2, 9, 2.5}));
  // The median of 1, 3, 2, 9 and 2.5 is 2.5. The differences from it are 1.5, 0.5, 0.5, 6.5 and 0, with
  // median 0.5.
  const auto coming = arrivals.coming(s(67.5), 1);
  ASSERT_EQ(coming.size(), 1u);
  EXPECT_NEAR(to_seconds(coming[0].at), 67.5 + 2.5, 1e-8);
  EXPECT_NEAR(to_seconds(coming[0].latest), 67.5 + 2.5 + 2 * 1.4826 * 0.5, 1e-8);
}

TEST(Arrivals, UseTheMeanOfTheTwoMiddleIntervalsIfTheirNumberIsEven) {
  Arrivals arrivals;
  arrivals.released(kA, iterate(arrivals, kA, s(0), {1, 3, 2, 9}));
  const auto coming = arrivals.coming(s(15), 1);
  ASSERT_EQ(coming.size(), 1u);
  EXPECT_NEAR(to_seconds(coming[0].at), 15 + 2.5, 1e-8);
  EXPECT_NEAR(to_seconds(coming[0].latest), 15 + 2.5 + 2 * 1.4826 * 1, 1e-8);
}

TEST(Arrivals, OneLongIterationChangesNothingAndAThirdOneIsBelieved) {
  Arrivals arrivals;
  Time now = iterate(arrivals, kA, s(0), {1, 1, 1, 1, 1, 5});
  EXPECT_NEAR(to_seconds(arrivals.interval(kA)), 1, 1e-8);
  now = iterate(arrivals, kA, now, {5});
  EXPECT_NEAR(to_seconds(arrivals.interval(kA)), 1, 1e-8);
  iterate(arrivals, kA, now, {5});
  EXPECT_NEAR(to_seconds(arrivals.interval(kA)), 5, 1e-8);
}

TEST(Arrivals, ComeUntilACertainTimeOnly) {
  Arrivals arrivals;
  iterate(arrivals, kA, s(0), {1});
  iterate(arrivals, kB, s(0), {2});
  arrivals.released(kA, s(10));
  arrivals.released(kB, s(10));
  EXPECT_EQ(arrivals.coming(s(10), 9, s(11.9)).size(), 1u);
  EXPECT_EQ(arrivals.coming(s(10), 9, s(12.1)).size(), 2u);
}

TEST(Arrivals, WaitingIsNotInTheInterval) {
  Arrivals arrivals;
  iterate(arrivals, kA, s(0), {1});
  iterate(arrivals, kA, s(10), {1});
  arrivals.released(kA, s(20));
  EXPECT_NEAR(to_seconds(arrivals.coming(s(20), 1).at(0).at), 21, 1e-8);
}

TEST(Arrivals, ComeInOrderAndAsManyAsWereAskedFor) {
  Arrivals arrivals;
  iterate(arrivals, kA, s(0), {3});
  iterate(arrivals, kB, s(0), {1});
  iterate(arrivals, kC, s(0), {2});
  for (const ReplicaId replica : {kA, kB, kC}) arrivals.released(replica, s(10));
  EXPECT_TRUE(arrivals.coming(s(10), 0).empty());
  const auto two = arrivals.coming(s(10), 2);
  ASSERT_EQ(two.size(), 2u);
  EXPECT_NEAR(to_seconds(two[0].at), 11, 1e-8);
  EXPECT_NEAR(to_seconds(two[1].at), 12, 1e-8);
  EXPECT_EQ(arrivals.coming(s(10), 9).size(), 3u);
}

TEST(Arrivals, DoNotExpectAnOverdueReplicaUntilItsNextRelease) {
  Arrivals arrivals;
  iterate(arrivals, kA, s(0), {1});
  iterate(arrivals, kB, s(0), {2});
  arrivals.released(kA, s(10));
  arrivals.released(kB, s(10));
  EXPECT_EQ(arrivals.coming(s(11.019), 9).size(), 2u);
  EXPECT_EQ(arrivals.coming(s(11.02), 9).size(), 1u) << "a deadline that has come is over";
  arrivals.ready(kA, s(11.5));
  arrivals.released(kA, s(11.6));
  EXPECT_EQ(arrivals.coming(s(11.7), 9).size(), 2u);
}

TEST(Arrivals, OverdueOnesInTheMiddleAreLeftOutToo) {
  Arrivals arrivals;
  iterate(arrivals, kA, s(0), {1, 3});  // median 2, very uneven
  iterate(arrivals, kB, s(0), {2.5});
  arrivals.released(kA, s(10));
  arrivals.released(kB, s(10));
  const auto coming = arrivals.coming(s(12.6), 9);
  ASSERT_EQ(coming.size(), 1u);
  EXPECT_NEAR(to_seconds(coming[0].at), 12, 1e-8);
}

TEST(Arrivals, ForgetTheRhythmOfAReplicaThatLeft) {
  Arrivals arrivals;
  iterate(arrivals, kA, s(0), {1});
  arrivals.released(kA, s(10));
  arrivals.left(kA);
  EXPECT_TRUE(arrivals.coming(s(10), 9).empty());
  arrivals.released(kA, s(20));
  EXPECT_TRUE(arrivals.coming(s(20), 9).empty());
  arrivals.left(kB);  // was never there
}

// All arrivals are looked at, one by one.
std::vector<Duration> waits_by_hand(Arrivals& arrivals, Time now, std::size_t most, Duration longest) {
  std::vector<Duration> waits;
  for (const Arrivals::Expected& one : arrivals.coming(now, most)) {
    if (one.wait(now) <= longest) waits.push_back(one.wait(now));
  }
  std::sort(waits.begin(), waits.end());
  return waits;
}

// Random iterations of replicas. Some replicas leave, and some stay away for a while. `look` is called now and then.
void random_iterations(std::uint64_t seed, const std::function<void(Arrivals&, Time, Rng&)>& look) {
  Rng rng(seed);
  Arrivals arrivals;
  const std::int32_t replicas = 1 << rng.below(9);
  std::vector<bool> computing(static_cast<std::size_t>(replicas), false);
  Time now;
  for (int step = 0; step < 20 * replicas; ++step) {
    const ReplicaId replica(static_cast<std::int32_t>(rng.below(static_cast<std::uint64_t>(replicas))));
    const auto index = static_cast<std::size_t>(replica.value());
    if (computing[index] && rng.below(20) == 0) {
      arrivals.left(replica);
    } else if (computing[index]) {
      arrivals.ready(replica, now);
    } else {
      arrivals.released(replica, now);
    }
    computing[index] = !computing[index];
    now += from_seconds(rng.uniform() / replicas);
    if (step % 7 == 0) look(arrivals, now, rng);
  }
}

TEST(Arrivals, TheirWaitsAreThoseOfTheNextThatAreNotTooLong) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    random_iterations(seed, [&](Arrivals& arrivals, Time now, Rng& rng) {
      const std::size_t most = rng.below(100);
      const Duration longest = from_seconds(2 * rng.uniform() * rng.uniform());
      std::vector<Duration> waits{Duration(1)};  // is replaced
      arrivals.waits(now, most, longest, waits);
      std::sort(waits.begin(), waits.end());
      ASSERT_EQ(waits, waits_by_hand(arrivals, now, most, longest)) << "seed " << seed;
    });
  }
}

TEST(Arrivals, NoMoreComeWithinTheirOwnWaitThanTheBoundSays) {
  std::int64_t tight = 0, asked = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    random_iterations(seed, [&](Arrivals& arrivals, Time now, Rng& rng) {
      const std::size_t most = 1 + rng.below(256);
      const double each_s = 0.1 * rng.uniform() * rng.uniform() * rng.uniform();
      const std::vector<Duration> waits = waits_by_hand(arrivals, now, most, Duration::max());
      std::size_t largest = 0;
      for (std::size_t n = 1; n <= waits.size(); ++n) {
        if (waits[n - 1] <= from_seconds(each_s * static_cast<double>(n))) largest = n;
      }
      const std::size_t bound = arrivals.largest_within(now, each_s, most);
      ASSERT_GE(bound, largest) << "seed " << seed;
      ASSERT_LE(bound, most) << "seed " << seed;
      tight += bound == largest ? 1 : 0;
      ++asked;
    });
  }
  EXPECT_GE(tight, asked * 9 / 10) << "of " << asked;
}

}  // namespace
}  // namespace paceline::policy
