#include "paceline/decisions/control/committed_rounds.h"

#include <vector>

#include <gtest/gtest.h>

namespace paceline::control {
namespace {

TEST(CommittedRounds, AddsUpWhatWasCommittedSince) {
  CommittedRounds rounds(Version(7));
  EXPECT_EQ(rounds.since(Version(7)), 0);
  for (const double fraction : {0.25, 0.5, 1.0}) rounds.commit(fraction);
  EXPECT_EQ(rounds.since(Version(7)), 1.75);
  EXPECT_EQ(rounds.since(Version(8)), 1.5);
  EXPECT_EQ(rounds.since(Version(10)), 0);
  rounds.forget_before(Version(9));
  EXPECT_EQ(rounds.since(Version(9)), 1);
  rounds.commit(0.125);
  EXPECT_EQ(rounds.since(Version(9)), 1.125);
}

// A caller that forgets when it is time keeps a few times what is needed, and looks seldom.
TEST(CommittedRounds, ItIsTimeToForgetSeldomAndNotTooLate) {
  constexpr int kNeeded = 100, kCommits = 100'000;
  CommittedRounds rounds(Version(0));
  int looked = 0;
  for (int version = 1; version <= kCommits; ++version) {
    rounds.commit(0.5);
    if (!rounds.too_many(10)) continue;
    ++looked;
    rounds.forget_before(Version(version < kNeeded ? 0 : version - kNeeded + 1));
    EXPECT_FALSE(rounds.too_many(10));
  }
  EXPECT_LT(looked, kCommits / kNeeded);
  EXPECT_GT(looked, kCommits / kNeeded / 2);
}

TEST(CommittedRoundsDeathTest, WhatIsForgottenOrStillToComeIsNotAskedFor) {
  CommittedRounds rounds(Version(0));
  rounds.commit(1);
  EXPECT_DEATH(rounds.since(Version(2)), "version 2 of 2 from 0 on");
  rounds.forget_before(Version(1));
  EXPECT_DEATH(rounds.since(Version(0)), "version 0 of 1 from 1 on");
}

}  // namespace
}  // namespace paceline::control
