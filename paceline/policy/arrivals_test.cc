// Tests which replicas are expected when, given their earlier intervals.
#include "paceline/policy/arrivals.h"

#include <gtest/gtest.h>

#include "paceline/policy/testing/short_names.h"

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

}  // namespace
}  // namespace paceline::policy
