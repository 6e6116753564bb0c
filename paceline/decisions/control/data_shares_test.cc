#include "paceline/decisions/control/data_shares.h"

#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/base/rng.h"

namespace paceline::control {
namespace {

using ::testing::ElementsAre;

// Replicas that take α + β·b milliseconds, in rounds in which everybody computes once.
class Rounds {
 public:
  explicit Rounds(std::vector<std::pair<double, double>> times, std::int64_t least = 1)
      : times_(std::move(times)), shares_(least) {
    for (std::size_t i = 0; i < times_.size(); ++i) shares_.joined(id(i), 32);
  }

  std::vector<std::int64_t> next() {
    std::vector<std::int64_t> samples;
    for (std::size_t i = 0; i < times_.size(); ++i) samples.push_back(shares_.next(id(i)));
    for (std::size_t i = 0; i < times_.size(); ++i)
      shares_.finished(id(i), samples[i], from_seconds(time_ms(i, samples[i]) / 1e3));
    return samples;
  }
  std::vector<std::int64_t> after(int rounds) {
    for (int i = 1; i < rounds; ++i) next();
    return next();
  }
  // Another replica, which computes once before the others' next round.
  void join(std::pair<double, double> time) {
    times_.push_back(time);
    const std::size_t i = times_.size() - 1;
    shares_.joined(id(i), 32);
    const std::int64_t samples = shares_.next(id(i));
    shares_.finished(id(i), samples, from_seconds(time_ms(i, samples) / 1e3));
  }
  double time_ms(std::size_t i, std::int64_t samples) const {
    return times_[i].first + times_[i].second * static_cast<double>(samples);
  }
  void change(std::size_t i, double beta_ms) { times_[i].second = beta_ms; }
  DataShares& shares() { return shares_; }
  static ReplicaId id(std::size_t i) { return ReplicaId(static_cast<std::int32_t>(i)); }

 private:
  std::vector<std::pair<double, double>> times_;
  DataShares shares_;
};

TEST(DataShares, AreBatchesAtFirstAndProportionalToSpeedsThen) {
  Rounds rounds({{0, 1}, {0, 1}, {0, 2}, {0, 4}});
  EXPECT_THAT(rounds.next(), ElementsAre(32, 32, 32, 32));
  // 128 samples over speeds 4 : 4 : 2 : 1, in whole samples: nobody takes longer than 48 ms.
  const auto shares = rounds.next();
  EXPECT_EQ(std::accumulate(shares.begin(), shares.end(), std::int64_t{0}), 128);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_LE(rounds.time_ms(i, shares[i]), 48);
}

TEST(DataShares, SettleWhereAllTakeEquallyLongThoughPartOfTheTimeIsFixed) {
  Rounds rounds({{20, 1}, {5, 1}, {50, 0.5}, {10, 2}});
  const auto shares = rounds.after(200);
  std::vector<double> times;
  for (std::size_t i = 0; i < 4; ++i) times.push_back(rounds.time_ms(i, shares[i]));
  const auto [least, most] = std::minmax_element(times.begin(), times.end());
  EXPECT_LE(*most - *least, 3) << "a sample takes up to 2 ms";
}

TEST(DataShares, FollowAReplicaThatChangesItsSpeed) {
  Rounds rounds({{0, 1}, {0, 1}});
  EXPECT_THAT(rounds.after(3), ElementsAre(32, 32));
  rounds.change(1, 3);
  EXPECT_THAT(rounds.after(3), ElementsAre(48, 16)) << "two rounds show it";
  rounds.change(1, 1);
  EXPECT_THAT(rounds.after(3), ElementsAre(32, 32));
}

// Samples of unequal lengths: their tokens take the time.
TEST(DataShares, FollowSpeedsAndNotTheLengthsOfSamplesIfTheProgramGivesTheirTokens) {
  const auto spread = [](bool tells) {
    Rng rng(5);
    DataShares shares;
    const ReplicaId slow(0), fast(1);
    for (const ReplicaId replica : {slow, fast}) shares.joined(replica, 32);
    std::int64_t least = 64, most = 0;
    for (int round = 0; round < 300; ++round) {
      for (const ReplicaId replica : {slow, fast}) {
        const std::int64_t samples = shares.next(replica);
        if (replica == slow && round >= 100) {
          least = std::min(least, samples);
          most = std::max(most, samples);
        }
        const double tokens = static_cast<double>(samples) * (100 + 900 * rng.uniform());
        const double ms = tokens * (replica == slow ? 3e-3 : 1e-3);
        shares.finished(replica, samples, from_seconds(ms / 1e3),
                        tells ? std::optional(tokens) : std::nullopt);
      }
    }
    return std::pair(least, most);
  };
  EXPECT_EQ(spread(true), std::pair(std::int64_t{16}, std::int64_t{16}));
  EXPECT_LT(spread(false).first, 12);
  EXPECT_GT(spread(false).second, 20);
}

// A weight may be anything, and the samples take the time.
TEST(DataShares, DoNotFollowAWeightThatTheTimesDoNotFollow) {
  Rng rng(5);
  DataShares shares;
  const ReplicaId slow(0), fast(1);
  for (const ReplicaId replica : {slow, fast}) shares.joined(replica, 32);
  for (int round = 0; round < 300; ++round) {
    for (const ReplicaId replica : {slow, fast}) {
      const std::int64_t samples = shares.next(replica);
      if (round > 0) {
        EXPECT_EQ(samples, replica == slow ? 16 : 48);
      }
      const double ms = static_cast<double>(samples) * (replica == slow ? 3 : 1);
      const double weight = round % 7 == 0 ? 0 : rng.uniform() * 1000;
      shares.finished(replica, samples, from_seconds(ms / 1e3), weight);
    }
  }
}

// A replica that gives no weight is compared by the usual weight of a sample.
TEST(DataShares, CompareReplicasWithAndWithoutWeights) {
  Rng rng(5);
  DataShares shares;
  const ReplicaId tells(0), says_nothing(1);
  for (const ReplicaId replica : {tells, says_nothing}) shares.joined(replica, 32);
  std::int64_t samples = 0;
  for (int round = 0; round < 300; ++round) {
    samples = shares.next(tells);
    const double tokens = static_cast<double>(samples) * (500 + 100 * rng.uniform());
    shares.finished(tells, samples, from_seconds(tokens * 3e-6), tokens);
    const std::int64_t others = shares.next(says_nothing);
    shares.finished(says_nothing, others, from_seconds(static_cast<double>(others) * 550 * 1e-6));
  }
  EXPECT_NEAR(static_cast<double>(samples), 16, 1);
}

TEST(DataShares, HardlyMoveForOneSlowIteration) {
  Rounds rounds({{0, 1}, {0, 1}});
  rounds.after(3);
  rounds.change(1, 10);
  rounds.next();
  rounds.change(1, 1);
  EXPECT_GE(rounds.next()[1], 30);
  EXPECT_THAT(rounds.after(10), ElementsAre(32, 32));
}

TEST(DataShares, LeaveNobodyWithoutAnything) {
  Rounds rounds({{0, 0.01}, {0, 1000}});
  rounds.next();
  EXPECT_THAT(rounds.next(), ElementsAre(64, 1));
}

TEST(DataShares, ANewcomerIsTakenToBeLikeTheOthers) {
  Rounds rounds({{0, 1}, {0, 1}, {0, 3}});
  rounds.after(5);
  rounds.shares().joined(ReplicaId(3), 32);
  // The new replica counts as one that takes 5/3 ms a sample: 128 over 1 + 1 + 1/3 + 3/5 of a sample a
  // millisecond.
  EXPECT_EQ(rounds.shares().next(ReplicaId(3)), 26);
}

// A newcomer begins while the others are in the middle of a round.
TEST(DataShares, OfARoundAreOfOneAssignmentAfterANewcomerToo) {
  Rounds rounds({{0, 1}, {0, 1}});
  rounds.after(5);
  rounds.join({0, 10});
  for (int round = 0; round < 5; ++round) {
    const auto shares = rounds.next();
    EXPECT_EQ(std::accumulate(shares.begin(), shares.end(), std::int64_t{0}), 96) << "round " << round;
    EXPECT_LE(shares[2], 5);
  }
}

TEST(DataShares, OfWhoIsGoneGoToTheOthers) {
  Rounds rounds({{0, 1}, {0, 1}, {0, 2}});
  rounds.after(5);
  rounds.shares().paused(ReplicaId(1));
  EXPECT_EQ(rounds.shares().next(ReplicaId(0)) + rounds.shares().next(ReplicaId(2)), 64);
  rounds.shares().joined(ReplicaId(1), 32);  // its speed is still known
  EXPECT_NEAR(static_cast<double>(rounds.shares().next(ReplicaId(1))), 96 * 0.4, 1);
}

TEST(DataShares, StayAsAPlannerDecidedWhenAReplicaLeaves) {
  Rounds rounds({{0, 1}, {0, 1}, {0, 1}});
  rounds.next();
  rounds.shares().decided(Rounds::id(0), 16);
  rounds.shares().decided(Rounds::id(1), 64);
  rounds.shares().decided(Rounds::id(2), 16);
  EXPECT_THAT(rounds.next(), ElementsAre(16, 64, 16));
  rounds.shares().paused(Rounds::id(1));
  rounds.shares().forget(Rounds::id(1));
  EXPECT_EQ(rounds.shares().next(Rounds::id(0)), 16) << "it may have no memory for more";
  EXPECT_EQ(rounds.shares().next(Rounds::id(2)), 16);
}

TEST(DataShares, AreNotBelowTheLeast) {
  Rounds rounds({{0, 1}, {0, 1000}}, 2);
  EXPECT_THAT(rounds.after(4), ElementsAre(64, 2));
  rounds.shares().decided(Rounds::id(0), 64);
  rounds.shares().decided(Rounds::id(1), 0);
  EXPECT_THAT(rounds.next(), ElementsAre(64, 2));
}

}  // namespace
}  // namespace paceline::control
