// Estimates of the path to the servers, from commits whose true costs are known here.
#include "paceline/decisions/policy/global_path.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <map>

#include <gtest/gtest.h>

#include "paceline/base/rng.h"
#include "paceline/decisions/policy/path_times.h"
#include "paceline/decisions/policy/testing/short_names.h"

namespace paceline::policy {
namespace {

using policy::testing::s;

double in_s(std::optional<Time> time) { return to_seconds(*time); }

// One commit from its order to its completion, with no other on the way.
void alone(GlobalPath& path, int version, std::size_t members, double at_s, double span_s) {
  path.ordered(Version(version), members, s(at_s));
  path.completed(Version(version), s(at_s + span_s));
}

TEST(PathTimes, TakeTheNearestNumberOfMembersThatWasSeenAndOfTwoTheSmaller) {
  Rng rng(5);
  for (int round = 0; round < 200; ++round) {
    PathTimes times;
    std::map<std::int64_t, double> spans;
    for (int commit = 0; commit < 8; ++commit) {
      const auto members = static_cast<std::int64_t>(1 + rng.below(round % 2 == 0 ? 12 : 256));
      // A number of members that was seen has the same span again, so that the average stays.
      const double span = spans.emplace(members, 1 + static_cast<double>(rng.below(1000))).first->second;
      times.learn(static_cast<std::size_t>(members), s(0), s(span), s(0));
      double each = span;
      for (const auto& [seen, took] : spans) each = std::min(each, took);
      for (std::int64_t asked = 1; asked <= 300; ++asked) {
        const std::int64_t told = std::min<std::int64_t>(asked, 256);
        const auto nearest = std::min_element(spans.begin(), spans.end(), [&](const auto& a, const auto& b) {
          return std::abs(a.first - told) < std::abs(b.first - told);
        });
        ASSERT_NEAR(to_seconds(times.reduce(static_cast<std::size_t>(asked))), nearest->second - each, 1e-6);
      }
    }
  }
}

TEST(GlobalPath, AnIdleOneIsFree) {
  GlobalPath path;
  EXPECT_TRUE(path.idle());
  EXPECT_LE(path.free_soon(3), Time{});
  EXPECT_EQ(path.queue(s(5)), Duration::zero());
  alone(path, 1, 1, 1, 0.5);
  EXPECT_TRUE(path.idle());
  EXPECT_LE(path.free_soon(3), s(1.5));
  EXPECT_EQ(path.queue(s(1.6)), Duration::zero());
}

TEST(GlobalPath, ABusyOneOfWhichNothingIsKnownSaysNothing) {
  GlobalPath path;
  path.ordered(Version(1), 1, s(1));
  EXPECT_FALSE(path.idle());
  EXPECT_EQ(path.free_soon(1), std::nullopt);
}

TEST(GlobalPath, TheFirstSpanIsAllTGlobal) {
  GlobalPath path;
  alone(path, 1, 2, 1, 0.5);
  EXPECT_NEAR(to_seconds(path.global()), 0.5, 1e-9);
  EXPECT_EQ(path.reduce(2), Duration::zero());
}

TEST(GlobalPath, TellsWhenItWillBeFreeATwentiethEarly) {
  GlobalPath path;
  alone(path, 1, 1, 1, 0.5);
  path.ordered(Version(2), 1, s(2));
  EXPECT_NEAR(in_s(path.free_soon(1)), 2.5 - 0.025, 1e-8);
  EXPECT_NEAR(to_seconds(path.queue(s(2.2))), 0.3, 1e-8);
  EXPECT_EQ(path.queue(s(3)), Duration::zero());
  // another commit behind it
  path.ordered(Version(3), 1, s(2.4));
  EXPECT_NEAR(in_s(path.free_soon(1)), 3.0 - 0.025, 1e-8);
}

TEST(GlobalPath, ALateCompletionPutsOffWhatFollows) {
  GlobalPath path;
  alone(path, 1, 1, 0, 0.5);
  path.ordered(Version(2), 1, s(1));
  path.ordered(Version(3), 1, s(1.1));
  path.completed(Version(2), s(1.7));
  EXPECT_NEAR(to_seconds(path.queue(s(1.7))), 0.5, 1e-8);
}

TEST(GlobalPath, LatenessCountsOnceHoweverManyAreBehind) {
  GlobalPath path;
  alone(path, 1, 1, 0, 0.5);
  for (int version = 2; version <= 4; ++version) path.ordered(Version(version), 1, s(1));
  path.completed(Version(2), s(1.7));  // 0.2 s late, and so is all that follows
  path.completed(Version(3), s(2.2));
  EXPECT_NEAR(to_seconds(path.queue(s(2.2))), 0.5, 1e-8);
}

TEST(GlobalPath, AnEarlyCompletionBringsForwardWhatFollows) {
  GlobalPath path;
  alone(path, 1, 1, 0, 0.5);
  path.ordered(Version(2), 1, s(1));
  path.ordered(Version(3), 1, s(1.1));
  path.completed(Version(2), s(1.3));
  EXPECT_NEAR(to_seconds(path.queue(s(1.3))), 0.5, 1e-8);
}

TEST(GlobalPath, SpansAreOfTheNumberOfMembersOrTheNearestSeen) {
  GlobalPath path;
  alone(path, 1, 1, 0, 0.5);
  alone(path, 2, 4, 1, 0.8);
  EXPECT_NEAR(to_seconds(path.reduce(4)), 0.3, 1e-9);
  EXPECT_NEAR(to_seconds(path.reduce(9)), 0.3, 1e-9);
  EXPECT_NEAR(to_seconds(path.reduce(3)), 0.3, 1e-9);
  EXPECT_EQ(path.reduce(2), Duration::zero());
  EXPECT_EQ(path.reduce(1), Duration::zero());
  alone(path, 3, 1000, 2, 2.5);
  EXPECT_NEAR(to_seconds(path.reduce(999)), 2.0, 1e-9) << "such large ones are not told apart";
}

TEST(GlobalPath, ASpanIsAnAverageThatMovesByAQuarter) {
  GlobalPath path;
  alone(path, 1, 1, 0, 0.2);
  alone(path, 2, 4, 1, 1.0);
  alone(path, 3, 4, 3, 2.0);
  EXPECT_NEAR(to_seconds(path.reduce(4)), 1.25 - 0.2, 1e-9);
}

TEST(GlobalPath, ASpanInWhichTheRunWasStoppedIsSoonForgotten) {
  GlobalPath path;
  alone(path, 1, 1, 0, 0.2);
  alone(path, 2, 4, 1, 1.0);
  alone(path, 3, 4, 3, 3600);
  EXPECT_LT(to_seconds(path.reduce(4)), 2);
  for (int i = 0; i < 4; ++i) alone(path, 4 + i, 4, 4000 + 2 * i, 1.0);
  EXPECT_NEAR(to_seconds(path.reduce(4)), 0.8, 0.3);
}

TEST(GlobalPath, FollowsASpanThatHasBecomeLonger) {
  GlobalPath path;
  alone(path, 1, 1, 0, 0.2);
  for (int i = 0; i < 30; ++i) alone(path, 2 + i, 4, 1 + 200 * i, i == 0 ? 1.0 : 100.0);
  EXPECT_NEAR(to_seconds(path.reduce(4)), 100, 1);
}

TEST(GlobalPath, TGlobalIsTheSpacingOfThoseThatWereHeldUp) {
  GlobalPath path;
  alone(path, 1, 1, 0, 0.5);
  path.ordered(Version(2), 1, s(1));
  path.ordered(Version(3), 1, s(1.05));
  path.ordered(Version(4), 1, s(1.1));
  path.completed(Version(2), s(1.5));
  path.completed(Version(3), s(1.8));  // took 0.75 s
  EXPECT_NEAR(to_seconds(path.global()), 0.5 + 0.25 * (0.3 - 0.5), 1e-9);
  path.completed(Version(4), s(2.1));
  EXPECT_NEAR(to_seconds(path.global()), 0.45 + 0.25 * (0.3 - 0.45), 1e-9);
  EXPECT_NEAR(to_seconds(path.reduce(1)), 0.5 - to_seconds(path.global()), 1e-9);
}

TEST(GlobalPath, OneThatWasNotHeldUpShowsThatTGlobalIsNoMore) {
  GlobalPath path;
  alone(path, 1, 1, 0, 0.5);
  path.ordered(Version(2), 1, s(1));
  path.ordered(Version(3), 1, s(1.2));
  path.completed(Version(2), s(1.5));
  path.completed(Version(3), s(1.7));  // took as long as ever
  EXPECT_NEAR(to_seconds(path.global()), 0.2, 1e-9);
  // Far apart, it shows nothing.
  path.ordered(Version(4), 1, s(2));
  path.ordered(Version(5), 1, s(2.45));
  path.completed(Version(4), s(2.5));
  path.completed(Version(5), s(2.95));
  EXPECT_NEAR(to_seconds(path.global()), 0.2, 1e-9);
}

TEST(GlobalPathDeathTest, VersionsCompleteInOrder) {
  GlobalPath path;
  EXPECT_DEATH(path.completed(Version(1), s(1)), "version 1 is complete out of turn");
  path.ordered(Version(1), 1, s(1));
  path.ordered(Version(2), 1, s(1));
  EXPECT_DEATH(path.completed(Version(2), s(2)), "version 2 is complete out of turn");
}

// A path of two stages. Only the second one keeps others out.
class TwoStages {
 public:
  explicit TwoStages(double global_s) : global_(from_seconds(global_s)) {}

  // Groups of three, each sent when free_soon says.
  void send(int groups) {
    for (int sent = 0; sent < groups; ++sent) {
      wait_until_free();
      path_.ordered(Version(++ordered_), 3, now_);
      last_ = std::max(now_ + kReduce, last_) + global_;
      complete_.push_back(last_);
    }
  }
  const GlobalPath& path() const { return path_; }
  Time now() const { return now_; }
  static constexpr Duration kReduce = std::chrono::milliseconds(300);

 private:
  void wait_until_free() {
    while (true) {
      const std::optional<Time> free = path_.free_soon(3);
      if (free && *free <= now_) return;
      const bool completes = !free || complete_.front() <= *free;
      now_ = completes ? complete_.front() : *free;
      if (!completes) return;
      complete_.pop_front();
      path_.completed(Version(++completed_), now_);
    }
  }

  const Duration global_;
  GlobalPath path_;
  std::deque<Time> complete_;
  Time now_{};
  Time last_{};
  int ordered_ = 0;
  int completed_ = 0;
};

class Pipelined : public ::testing::TestWithParam<double> {};

TEST_P(Pipelined, TGlobalShrinksToWhatItIsAndTheReductionHidesBehindIt) {
  TwoStages stages(GetParam());
  stages.send(300);
  const Time learnt = stages.now();
  stages.send(100);
  EXPECT_NEAR(to_seconds(stages.path().global()), GetParam(), 0.06 * GetParam());
  EXPECT_NEAR(to_seconds(stages.now() - learnt) / 100, GetParam(), 0.02 * GetParam());
}

INSTANTIATE_TEST_SUITE_P(Seconds, Pipelined, ::testing::Values(0.1, 0.3, 1.0, 4.0));

}  // namespace
}  // namespace paceline::policy
