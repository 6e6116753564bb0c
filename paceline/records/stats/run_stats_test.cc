#include "paceline/records/stats/run_stats.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "paceline/records/stats/example_run.h"
#include "paceline/records/stats/testing/moments.h"

namespace paceline::report {
namespace {

using control::CommitMember;
using control::CommitRecord;
using control::Release;
using report::testing::at;
using ::testing::ElementsAre;

const RunInfo kInfo{.title = "a job",
                    .policy = "asp",
                    .world = World::kVirtual,
                    .total_samples = 100,
                    .target = Target{"accuracy", 0.9}};

// A run made by hand, fact by fact and order by order.
class Told {
 public:
  explicit Told(RunInfo info = kInfo) : stats(std::move(info)) {}

  Told& joined(double when, int replica) { return joined_as(when, replica, replica); }
  Told& joined_as(double when, int replica, int name) {
    stats.on_fact({at(when), control::ReplicaJoined{ReplicaId(replica), fmt::format("w{}", name), 10}});
    return *this;
  }
  Told& left(double when, int replica) {
    stats.on_fact({at(when), control::ReplicaLeft{ReplicaId(replica), "killed"}});
    return *this;
  }
  Told& released(double when, int replica, int clock, policy::Reason why = {"go on"}) {
    stats.on_order(at(when), Release{ReplicaId(replica), Clock(clock), Version(0), {}, why});
    return *this;
  }
  Told& ready(double when, int replica, int clock, double compute = 1, double loss = 1, double pulling = 0) {
    stats.on_fact({at(when), control::ReplicaReady{.replica = ReplicaId(replica),
                                                   .clock = Clock(clock),
                                                   .base = Version(0),
                                                   .compute = from_seconds(compute),
                                                   .loss = loss,
                                                   .pulling = from_seconds(pulling)}});
    return *this;
  }
  Told& measured(double when, int replica, int clock, const Metrics& metrics) {
    stats.on_fact({at(when), control::ReplicaReady{ReplicaId(replica), Clock(clock), Version(0),
                                                   from_seconds(1), 1, metrics}});
    return *this;
  }
  // A commit of ten samples of one replica; `base`: its gradient's base version.
  Told& committed(double when, int version, int replica, int base) {
    CommitRecord commit;
    commit.version = Version(version);
    commit.samples = 10;
    commit.nominal = 20;
    commit.committed_before = 10 * (version - 1);
    commit.members.push_back({ReplicaId(replica), Clock(0), Version(base), Lease{0, 0, 10}});
    stats.on_order(at(when), commit);
    return *this;
  }
  // A commit of ten samples of each of these replicas.
  Told& committed_together(double when, int version, const std::vector<int>& replicas, policy::Reason why,
                           double learning_rate = 0, double fraction = 1) {
    CommitRecord commit;
    commit.version = Version(version);
    commit.samples = 10 * std::ssize(replicas);
    commit.nominal = 20;
    commit.learning_rate = learning_rate;
    commit.fraction = fraction;
    commit.why = why;
    for (const int replica : replicas) {
      commit.members.push_back({ReplicaId(replica), Clock(0), Version(version - 1), Lease{0, 0, 10}});
    }
    stats.on_order(at(when), commit);
    return *this;
  }
  Told& parked(double when, int replica) {
    stats.on_order(at(when), control::Park{ReplicaId(replica)});
    return *this;
  }
  Told& evaluated(double when, double accuracy, double loss, const Metrics& metrics = {}) {
    stats.on_evaluated({at(when), Version(1), 10, loss, accuracy, metrics});
    return *this;
  }
  std::vector<Interval> lane(int replica, double now) const {
    return stats.history(at(now)).replicas[replica].intervals;
  }

  RunStats stats;
};

TEST(RunStats, NothingIsKnownOfARunThatHasNotBegun) {
  const Summary summary = Told().stats.summary(at(5));
  EXPECT_EQ(summary.elapsed_s, 0);
  EXPECT_EQ(summary.samples_per_s, 0);
  EXPECT_EQ(summary.wait_share, std::nullopt);
  EXPECT_EQ(summary.staleness_mean, std::nullopt);
  EXPECT_EQ(summary.training_loss, std::nullopt);
  EXPECT_EQ(summary.time_to_target_s(), std::nullopt);
  EXPECT_EQ(summary.time_left_s(), std::nullopt);
}

// An iteration of w0 should take 100 ms; w1 has no pace.
std::optional<PaceSummary> pace_of(const std::vector<double>& taken_s, int replica = 0,
                                   double pulling_s = 0) {
  RunInfo info = kInfo;
  info.asked_pace = [](const AskedIteration& asked) {
    return asked.replica == "w0" ? std::optional(from_seconds(0.1)) : std::nullopt;
  };
  Told run(info);
  run.joined(0, replica);
  for (std::size_t i = 0; i < taken_s.size(); ++i) {
    const int clock = static_cast<int>(i) + 1;
    run.released(clock, replica, clock).ready(clock + 0.5, replica, clock, taken_s[i], 1, pulling_s);
  }
  return run.stats.summary(at(1000)).replicas.back().pace;
}

TEST(RunStats, APaceIsHeldWhereMostIterationsTakeAboutSoLong) {
  std::vector<double> taken(10, 0.101);
  EXPECT_TRUE(pace_of(taken)->held);
  taken[0] = 5;  // the first one loads libraries
  taken[1] = 0.2;
  EXPECT_TRUE(pace_of(taken)->held);
  EXPECT_NEAR(pace_of(taken)->asked_s, 0.1, 1e-9);
  EXPECT_NEAR(pace_of(taken)->taken_s, 0.6008, 1e-9);
  taken[2] = 0.2;
  EXPECT_FALSE(pace_of(taken)->held);
  EXPECT_EQ(pace_of({5, 5, 5}), std::nullopt) << "too few to say";
  EXPECT_FALSE(pace_of(std::vector<double>(8, 0.164))->held) << "a short run";
  EXPECT_TRUE(pace_of({5, 0.101, 0.101, 0.101})->held);
  EXPECT_EQ(pace_of(taken, 1), std::nullopt) << "it has none";
  const std::vector<double> updates_are_slow(10, 0.15);
  EXPECT_TRUE(pace_of(updates_are_slow, 0, 0.05)->held) << "no pace is of the wait for weights";
  EXPECT_FALSE(pace_of(updates_are_slow, 0, 0.02)->held);
}

TEST(RunStats, WaitingIsFromReadyToRelease) {
  Told run;
  run.joined(0, 0).released(2, 0, 1).ready(5, 0, 1, 2.5).released(6, 0, 2).ready(9, 0, 2, 3.5);
  const Summary summary = run.stats.summary(at(10));
  EXPECT_DOUBLE_EQ(*summary.wait_share, 2.0 / 8)
      << "6 s computing, 1 + 1 s waiting; before the first release: neither";
  EXPECT_DOUBLE_EQ(summary.elapsed_s, 8);
  EXPECT_EQ(summary.iterations, 2);
  EXPECT_DOUBLE_EQ(*summary.replicas[0].mean_compute_s, 3.0) << "as the replica reports it";
}

TEST(RunStats, WaitShareIsOverAllReplicasTogether) {
  Told run;
  run.joined(0, 0).joined(0, 1).released(0, 0, 1).released(0, 1, 1).ready(1, 0, 1).ready(3, 1, 1);
  const Summary summary = run.stats.summary(at(3));
  EXPECT_DOUBLE_EQ(*summary.wait_share, 2.0 / 6);
  EXPECT_DOUBLE_EQ(*summary.replicas[0].wait_share, 2.0 / 3);
  EXPECT_DOUBLE_EQ(*summary.replicas[1].wait_share, 0.0);
}

// 292 years are the most that a Duration can be.
TEST(RunStats, WaitShareIsOfMoreThanTheYearsOfADuration) {
  constexpr double kYear = 365.0 * 24 * 3600;
  Told run;
  for (int replica = 0; replica < 8; ++replica) run.joined(0, replica).released(0, replica, 1);
  for (int replica = 0; replica < 8; ++replica) run.ready(25 * kYear, replica, 1);
  EXPECT_DOUBLE_EQ(*run.stats.summary(at(100 * kYear)).wait_share, 0.75);
}

TEST(RunStats, ParkedTimeIsNeitherWaitingNorComputing) {
  Told run;
  run.joined(0, 0).released(0, 0, 1).ready(1, 0, 1).parked(2, 0);
  EXPECT_DOUBLE_EQ(*run.stats.summary(at(10)).wait_share, 0.5);
  EXPECT_EQ(run.stats.summary(at(10)).replicas[0].doing, Doing::kParked);
  EXPECT_EQ(run.stats.summary(at(10)).replicas[0].why, "no samples are left for it");
  run.released(10, 0, 2);
  EXPECT_DOUBLE_EQ(*run.stats.summary(at(12)).wait_share, 0.25);
  EXPECT_EQ(run.stats.summary(at(12)).replicas[0].why, "");
}

TEST(RunStats, AReplicaThatLeavesMidIterationComputedUntilThen) {
  Told run;
  run.joined(0, 0).joined(0, 1).released(0, 0, 1).released(0, 1, 1).left(3, 1);
  const Summary summary = run.stats.summary(at(8));
  EXPECT_EQ(summary.replicas_live(), 1);
  EXPECT_EQ(summary.replicas[1].doing, Doing::kGone);
  EXPECT_EQ(summary.replicas[1].why, "killed");
  EXPECT_EQ(summary.replicas[1].iterations, 0);
  const std::vector<Interval> lane = run.lane(1, 8);
  ASSERT_EQ(lane.size(), 1U);
  EXPECT_EQ(lane[0].end, at(3));
  EXPECT_EQ(policy::to_string(lane[0].ended), "it left");
}

TEST(RunStats, AReplicaThatComesBackGoesOnWhereItWas) {
  Told run;
  run.joined(0, 0).released(0, 0, 1).ready(2, 0, 1).committed(2, 1, 0, 0).left(2, 0);
  run.joined(5, 0).released(5, 0, 2).ready(8, 0, 2, 3).committed(8, 2, 0, 1);
  EXPECT_EQ(run.stats.summary(at(8)).replicas[0].why, "") << "it has not left";
  run.parked(8, 0);
  const Summary summary = run.stats.summary(at(8));
  ASSERT_EQ(summary.replicas.size(), 1U);
  EXPECT_EQ(summary.replicas[0].doing, Doing::kParked);
  EXPECT_EQ(summary.replicas[0].iterations, 2);
  EXPECT_EQ(summary.replicas[0].samples, 20);
  EXPECT_EQ(summary.replicas[0].mean_compute_s, 2.0);
  EXPECT_EQ(summary.wait_share, 0.0) << "nobody waits while it is gone";
  const std::vector<Interval> lane = run.lane(0, 8);
  ASSERT_EQ(lane.size(), 2U);
  EXPECT_EQ(lane[0].end, at(2));
  EXPECT_EQ(lane[1].start, at(5));
}

TEST(RunStats, TheGapIsToTheSlowestThatTakesPart) {
  Told run;
  run.joined(0, 0).joined(0, 1).joined(0, 2).released(0, 0, 1).released(0, 1, 1);
  run.ready(1, 0, 1).released(1, 0, 2).ready(2, 0, 2).released(2, 0, 3);
  EXPECT_EQ(run.stats.summary(at(2)).gap_max, 2);
  EXPECT_EQ(run.stats.summary(at(2)).gap, 2);
  run.left(2, 1).ready(3, 0, 3);
  EXPECT_EQ(run.stats.summary(at(3)).gap_max, 2) << "the slowest is gone, and w2 never started";
  EXPECT_EQ(run.stats.summary(at(3)).gap, 0);
}

TEST(RunStats, AParkedReplicaDoesNotCountForTheGapUntilItIsBack) {
  Told run;
  run.joined(0, 0).joined(0, 1).released(0, 0, 1).released(0, 1, 1).ready(1, 1, 1).parked(1, 1);
  run.ready(1, 0, 1).released(1, 0, 2).ready(2, 0, 2).released(2, 0, 3).ready(3, 0, 3);
  EXPECT_EQ(run.stats.summary(at(3)).gap_max, 1) << "of w1, before it was parked";
  run.released(4, 1, 4);  // back, at the slowest clock
  EXPECT_EQ(run.stats.summary(at(4)).gap, 0);
}

TEST(RunStats, StalenessIsOfCommittedContributions) {
  Told run;
  run.joined(0, 0).joined(0, 1).released(0, 0, 1).released(0, 1, 1);
  run.committed(1, 1, 0, 0).committed(2, 2, 0, 0).committed(3, 3, 1, 0).committed(4, 4, 1, 3);
  const Summary summary = run.stats.summary(at(4));
  EXPECT_DOUBLE_EQ(*summary.staleness_mean, (0 + 1 + 2 + 0) / 4.0);
  EXPECT_EQ(summary.staleness_max, 2);
  EXPECT_DOUBLE_EQ(*summary.replicas[0].mean_staleness, 0.5);
  EXPECT_DOUBLE_EQ(*summary.replicas[1].mean_staleness, 1.0);
  EXPECT_THAT(run.stats.history(at(4)).staleness.counts(), ElementsAre(2, 1, 1));
  EXPECT_EQ(summary.replicas[0].samples, 20);
  EXPECT_EQ(summary.commits, 4);
}

TEST(RunStats, TheRateCountsOnlyWhatThisRunCommitted) {
  Told run;
  run.joined(0, 0).released(0, 0, 1).committed(5, 8, 0, 7);  // resumed with 70 samples
  const Summary summary = run.stats.summary(at(5));
  EXPECT_EQ(summary.samples, 80);
  EXPECT_DOUBLE_EQ(summary.samples_per_s, 2.0);
  EXPECT_DOUBLE_EQ(*summary.time_left_s(), 10.0);
}

TEST(RunStats, ACommitIsAGroupOfItsMembers) {
  Told run;
  for (int i = 0; i < 4; ++i) run.joined(0, i).released(0, i, 1);
  run.committed_together(1, 1, {2}, {"path free: {} gradients", 1});
  EXPECT_FALSE(run.stats.summary(at(1)).groups.between);
  run.committed_together(2, 2, {0, 1, 3}, {"full: {} of {}", 3, 4});
  const GroupSummary groups = run.stats.summary(at(2)).groups;
  EXPECT_EQ(groups.gradients, 4);
  EXPECT_DOUBLE_EQ(*groups.size_mean, 2);
  EXPECT_DOUBLE_EQ(*groups.size_of_late, 2);
  EXPECT_EQ(groups.size_max, 3);
  EXPECT_TRUE(groups.between);
  EXPECT_EQ(groups.latest_size, 3);
  EXPECT_EQ(groups.latest_cause, "full");
  const GroupHistory history = run.stats.history(at(2)).groups;
  ASSERT_EQ(history.formed.size(), 1U) << "one gradient alone joins nobody";
  EXPECT_EQ(history.formed[0].at, at(2));
  EXPECT_EQ(history.formed[0].version, Version(2));
  EXPECT_EQ(history.formed[0].size, 3);
  EXPECT_THAT(history.formed[0].drawn, ElementsAre(ReplicaId(0), ReplicaId(1), ReplicaId(3)));
  EXPECT_EQ(policy::to_string(history.formed[0].why), "full: 3 of 4");
  EXPECT_THAT(history.sizes.causes(), ElementsAre("path free", "full"));
}

TEST(RunStats, NoGroupsBeforeTheFirstCommit) {
  const Summary summary = Told().stats.summary(at(1));
  EXPECT_EQ(summary.groups.size_mean, std::nullopt);
  EXPECT_EQ(summary.commits_per_epoch(), std::nullopt);
  EXPECT_EQ(summary.deviation(), std::nullopt);
}

// A replica that left or is parked is not waited for, so a group of all others is a group of all.
TEST(RunStats, AGroupOfAllThatTakePartIsNotBetween) {
  Told run;
  for (int i = 0; i < 4; ++i) run.joined(0, i).released(0, i, 1);
  run.left(1, 0).ready(1, 1, 1).parked(1, 1).committed_together(2, 1, {2, 3}, {"all"});
  EXPECT_FALSE(run.stats.summary(at(2)).groups.between);
  run.released(3, 1, 2).committed_together(4, 2, {2, 3}, {"all"});
  EXPECT_TRUE(run.stats.summary(at(4)).groups.between);
}

TEST(RunStats, TheSizeOfLateForgets) {
  Told run;
  run.joined(0, 0).released(0, 0, 1).joined(0, 1).released(0, 1, 1);
  int version = 0;
  while (version < 200) run.committed_together(1, ++version, {0, 1}, {"both"});
  while (version < 240) run.committed_together(1, ++version, {0}, {"alone"});
  const GroupSummary groups = run.stats.summary(at(1)).groups;
  EXPECT_NEAR(*groups.size_mean, 2 - 1.0 / 6, 1e-9);
  EXPECT_NEAR(*groups.size_of_late, 1 + std::pow(0.95, 40), 1e-9);
}

// An epoch has 40 samples; 60 are committed here, in three updates of six gradients.
TEST(RunStats, UpdatesAnEpochBesideWhatAspWouldMake) {
  RunInfo info = kInfo;
  info.epoch_samples = 40;
  Told run(info);
  for (int i = 0; i < 3; ++i) run.joined(0, i).released(0, i, 1);
  const auto commit = [&](int version, int before, const std::vector<int>& replicas) {
    CommitRecord record;
    record.version = Version(version);
    record.samples = 10 * std::ssize(replicas);
    record.nominal = 30;
    record.committed_before = before;
    for (const int id : replicas) {
      record.members.push_back({ReplicaId(id), Clock(0), Version(version - 1), Lease{0, 0, 10}});
    }
    run.stats.on_order(at(version), record);
  };
  commit(8, 1000, {0, 1, 2});  // resumed
  commit(9, 1030, {0});
  commit(10, 1040, {1, 2});
  const Summary summary = run.stats.summary(at(10));
  EXPECT_DOUBLE_EQ(summary.epochs, 1.5);
  EXPECT_DOUBLE_EQ(*summary.commits_per_epoch(), 2);
  EXPECT_DOUBLE_EQ(*summary.gradients_per_epoch(), 4);
}

TEST(RunStats, TheDeviationTakesTheLargestOfAll) {
  RunInfo info = kInfo;
  info.staleness_bound = 5;
  Told run(info);
  run.joined(0, 0).released(0, 0, 1).joined(0, 1).released(0, 1, 1);
  run.committed_together(1, 1, {0}, {"alone"}, 0.2, 0.25)
      .committed_together(2, 2, {0, 1}, {"both"}, 0.1, 0.5);
  run.committed(3, 3, 0, 0);  // τ = 2, f = 1, no rate
  const Deviation deviation = run.stats.summary(at(3)).deviation().value();
  EXPECT_DOUBLE_EQ(deviation.measured, 0.2 * 1 * 2);
  EXPECT_DOUBLE_EQ(*deviation.bound, 0.2 * 1 * 5);
  Told unbound;
  unbound.joined(0, 0).released(0, 0, 1).committed(1, 1, 0, 0);
  EXPECT_EQ(unbound.stats.summary(at(1)).deviation()->bound, std::nullopt);
}

TEST(RunStats, TheTargetIsMetByTheFirstEvaluationThatDoes) {
  Told run;
  run.evaluated(1, 0.5, 2).evaluated(2, 0.91, 1).evaluated(3, 0.95, 0.5).evaluated(4, 0.94, 0.4);
  const Summary summary = run.stats.summary(at(5));
  EXPECT_DOUBLE_EQ(*summary.time_to_target_s(), 2.0);
  EXPECT_DOUBLE_EQ(*summary.best_accuracy, 0.95);
  EXPECT_DOUBLE_EQ(*summary.best_loss, 0.4);
  EXPECT_DOUBLE_EQ(summary.last_evaluation->accuracy, 0.94);
}

TEST(RunStats, ALossTargetIsMetFromAbove) {
  RunInfo info = kInfo;
  info.target = Target{"loss", 1.0, true};
  Told run(info);
  run.evaluated(1, 0.99, 1.1).evaluated(2, 0.1, 1.0);
  EXPECT_DOUBLE_EQ(*run.stats.summary(at(5)).time_to_target_s(), 2.0);
}

TEST(RunStats, AMetricOfTheUsersMayBeTheTarget) {
  RunInfo info = kInfo;
  info.target = Target{"f1", 0.5};
  Told run(info);
  run.evaluated(1, 0.99, 0.1, {{"recall", 0.9}})
      .evaluated(2, 0.1, 1.0, {{"f1", 0.4}})
      .evaluated(3, 0, 9, {{"f1", 0.5}});
  EXPECT_DOUBLE_EQ(*run.stats.summary(at(5)).time_to_target_s(), 3.0);
}

// Metrics are averaged over commits like the loss: weighted by samples, older ones counting less; only the
// first names are kept.
TEST(RunStats, MetricsOfStepsAreAveraged) {
  Told run;
  run.joined(0, 0).released(0, 0, 1).measured(1, 0, 1, {{"f1", 0.25}}).committed(1, 1, 0, 0);
  EXPECT_EQ(run.stats.summary(at(1)).training_metrics, (Metrics{{"f1", 0.25}}));
  Metrics many;
  for (int i = 0; i < 100; ++i) many["m" + std::to_string(i)] = i;
  run.released(1, 0, 2).measured(2, 0, 2, many).committed(2, 2, 0, 1);
  const Metrics means = run.stats.summary(at(2)).training_metrics;
  EXPECT_EQ(means.size(), RunStats::kAveragedMetrics);
  EXPECT_EQ(means.at("f1"), 0.25);
  EXPECT_EQ(run.stats.history(at(2)).training.back().metrics, means);
}

// A batch may have nothing that its loss is a mean over.
TEST(RunStats, BeforeAnyLossCountsThereIsNone) {
  Told run;
  const auto weighed = [&](double when, int clock, double weight) {
    run.released(when - 1, 0, clock);
    run.stats.on_fact({at(when), control::ReplicaReady{.replica = ReplicaId(0),
                                                       .clock = Clock(clock),
                                                       .base = Version(0),
                                                       .compute = from_seconds(1),
                                                       .loss = 0.5,
                                                       .metrics = {{"f1", 0.25}},
                                                       .weight = weight}});
    run.committed(when, clock, 0, clock - 1);
  };
  run.joined(0, 0);
  weighed(1, 1, 0);
  EXPECT_EQ(run.stats.summary(at(1)).training_loss, std::nullopt);
  EXPECT_EQ(run.stats.summary(at(1)).training_metrics, Metrics{});
  weighed(2, 2, 10);
  const std::vector<TrainingPoint> points = run.stats.history(at(2)).training;
  ASSERT_EQ(points.size(), 2U);
  EXPECT_TRUE(std::isnan(points[0].loss)) << points[0].loss;
  EXPECT_EQ(points[0].metrics, Metrics{});
  EXPECT_EQ(points[1].loss, 0.5);
  EXPECT_EQ(points[1].metrics, (Metrics{{"f1", 0.25}}));
}

TEST(RunStats, AnEvaluationThatIsNotANumberIsNeverTheBest) {
  Told run;
  const double nan = std::numeric_limits<double>::quiet_NaN();
  run.evaluated(1, nan, nan).evaluated(2, 0.3, 2).evaluated(3, nan, nan);
  EXPECT_DOUBLE_EQ(*run.stats.summary(at(5)).best_accuracy, 0.3);
  EXPECT_DOUBLE_EQ(*run.stats.summary(at(5)).best_loss, 2);
  EXPECT_EQ(run.stats.summary(at(5)).time_to_target_s(), std::nullopt);
}

TEST(RunStats, TimeStandsStillAfterTheEnd) {
  Told run;
  run.joined(0, 0).released(0, 0, 1).ready(2, 0, 1).committed(2, 1, 0, 0);
  EXPECT_FALSE(run.stats.summary(at(2)).is_whole());
  run.stats.on_order(at(2), control::Finish{"every sample is committed", control::FinishCause::kEverySample});
  const Summary summary = run.stats.summary(at(1000));
  EXPECT_TRUE(summary.finished);
  EXPECT_TRUE(summary.is_whole());
  EXPECT_DOUBLE_EQ(summary.elapsed_s, 2);
  EXPECT_DOUBLE_EQ(*summary.wait_share, 0);
  EXPECT_EQ(run.lane(0, 1000).size(), 1U) << "it did nothing after the end";
}

TEST(RunStats, ReplicasThatWorkedAtTheEndHaveEnded) {
  Told run;
  run.joined(0, 0).joined(0, 1).joined(0, 2).joined(0, 3);
  run.released(0, 0, 1).released(0, 1, 1).ready(1, 1, 1).parked(1, 2).left(1, 3);
  run.stats.on_order(at(2), control::Finish{"interrupted"});
  const Summary summary = run.stats.summary(at(3));
  EXPECT_EQ(summary.replicas[0].doing, Doing::kEnded) << "it was computing";
  EXPECT_EQ(summary.replicas[1].doing, Doing::kEnded) << "it was waiting";
  EXPECT_EQ(summary.replicas[2].doing, Doing::kParked);
  EXPECT_EQ(summary.replicas[3].doing, Doing::kGone);
}

TEST(RunStats, LanesTellWhatEndedTheWaiting) {
  Told run;
  run.joined(0, 0)
      .released(0, 0, 1)
      .ready(1, 0, 1)
      .released(3, 0, 2, {"{} ahead, {} allowed", 1, 3})
      .ready(4, 0, 2);
  run.released(4, 0, 3);  // at once: no waiting to draw
  const std::vector<Interval> lane = run.lane(0, 5);
  ASSERT_EQ(lane.size(), 4U);
  EXPECT_EQ(lane[1].doing, Doing::kWaiting);
  EXPECT_EQ(lane[1].start, at(1));
  EXPECT_EQ(lane[1].end, at(3));
  EXPECT_EQ(policy::to_string(lane[1].ended), "1 ahead, 3 allowed");
  EXPECT_EQ(lane[2].iteration, Clock(2));
  EXPECT_EQ(lane[3].doing, Doing::kComputing);
  EXPECT_EQ(lane[3].end, at(5)) << "what it does now ends now";
}

TEST(RunStats, EventsAreInWords) {
  Told run;
  run.joined(0, 0).released(0, 0, 1).ready(1, 0, 1, 1, std::numeric_limits<double>::quiet_NaN());
  run.committed(1, 1, 0, 0).parked(2, 0).parked(2.5, 0).released(3, 0, 2).left(4, 0);
  std::vector<std::string> texts;
  for (const Event& event : run.stats.history(at(5)).events)
    texts.push_back(event.replica + " " + event.text);
  EXPECT_THAT(texts,
              ElementsAre("w0 joined, 10 samples an iteration", "w0 its training loss is not a finite number",
                          "w0 done: no samples are left for it", "w0 back: there are samples for it again",
                          "w0 left: killed"));
}

TEST(RunStats, ASimulationHasNoLoss) {
  RunInfo info = kInfo;
  info.world = World::kSimulated;
  Told run(info);
  run.joined(0, 0).released(0, 0, 1).ready(1, 0, 1).committed(1, 1, 0, 0);
  EXPECT_EQ(run.stats.summary(at(1)).training_loss, std::nullopt);
}

TEST(RunStats, AMillionEventsStayBounded) {
  Told run;
  run.joined(0, 0).joined(0, 1).released(0, 1, 1);
  for (int i = 1; i <= 250'000; ++i) {
    run.released(i, 0, i).ready(i + 0.5, 0, i).evaluated(i + 0.6, 0.5, 1);
    run.committed_together(i + 0.6, i, {0, 1}, {"both"});
    if (i % 10 == 0) run.parked(i + 0.7, 0);
  }
  const History history = run.stats.history(at(250'001));
  EXPECT_LE(history.training.size(), RunStats::kCurvePoints);
  EXPECT_LE(history.evaluations.size(), RunStats::kCurvePoints);
  EXPECT_EQ(history.events.size(), RunStats::kFirstEvents + RunStats::kLatestEvents);
  EXPECT_GT(history.events_left_out, 40'000);
  const ReplicaHistory& busy = history.replicas[0];
  EXPECT_LE(busy.intervals.size(), ReplicaStats::kFirstIntervals + ReplicaStats::kLatestIntervals + 1);
  EXPECT_GT(busy.intervals_left_out, 400'000);
  EXPECT_LE(busy.activity.size(), ReplicaStats::kActivityPoints);
  EXPECT_LE(busy.gaps.size(), ReplicaStats::kGapPoints);
  EXPECT_EQ(history.groups.formed.size(), GroupStats::kFirstGroups + GroupStats::kLatestGroups);
  EXPECT_GT(history.groups.left_out, 200'000);
  EXPECT_EQ(run.stats.summary(at(250'001)).iterations, 250'000) << "the numbers count everything";
}

TEST(RunStats, LanesAreKeptOfTheFirstReplicasOnly) {
  Told run;
  std::vector<int> all;
  for (int i = 0; i < 100; ++i) {
    run.joined(0, i).released(0, i, 1);
    all.push_back(i);
  }
  run.committed_together(1, 1, all, {"everyone"});
  EXPECT_EQ(run.stats.history(at(1)).replicas.size(), RunStats::kRecordedReplicas);
  EXPECT_EQ(run.stats.summary(at(1)).replicas.size(), 100U);
  const Group group = run.stats.history(at(1)).groups.formed.at(0);
  EXPECT_EQ(group.size, 100);
  EXPECT_EQ(group.drawn.size(), RunStats::kRecordedReplicas);
}

// In a long run every place has another replica in the end.
TEST(RunStats, AReplicaThatComesAgainGoesOnInItsLane) {
  Told run;
  constexpr int kPlaces = 70;
  for (int i = 0; i < kPlaces; ++i) run.joined(0, i).released(0, i, 1).ready(1, i, 1);
  run.committed_together(1, 1, {0, 1}, {"both"});
  for (int again = 1; again <= 2; ++again) {
    for (int i = 0; i < kPlaces; ++i) {
      const int id = again * kPlaces + i;
      run.left(3 * again, id - kPlaces)
          .joined_as(3 * again, id, i)
          .released(3 * again, id, 1)
          .ready(3 * again + 1, id, 1);
    }
  }
  run.committed_together(7, 2, {2 * kPlaces, 2 * kPlaces + 1, 3 * kPlaces - 1}, {"all"});
  const History history = run.stats.history(at(7));
  ASSERT_EQ(history.replicas.size(), RunStats::kRecordedReplicas);
  const ReplicaHistory& lane = history.replicas[0];
  EXPECT_EQ(lane.replica, ReplicaId(2 * kPlaces));
  ASSERT_EQ(lane.intervals.size(), 5U) << "computing and waiting, twice, and computing";
  EXPECT_EQ(lane.intervals[0].start, at(0));
  EXPECT_EQ(lane.activity.back().computing, from_seconds(3)) << "of all three";
  for (const Group& group : history.groups.formed)
    EXPECT_THAT(group.drawn, ElementsAre(ReplicaId(2 * kPlaces), ReplicaId(2 * kPlaces + 1)));
}

// w3 takes 0.3 s, the others 0.1 s. In a round of BSP three wait 0.2 s of 0.3 s.
TEST(RunStats, BulkSynchronousRunOfUnevenReplicas) {
  RunStats stats(kInfo);
  const Time end = run_example(uneven_four(), "bsp", stats);
  const Summary summary = stats.summary(end);
  EXPECT_EQ(summary.samples, 3200);
  EXPECT_EQ(summary.commits, 25);
  EXPECT_NEAR(summary.elapsed_s, 7.5, 1e-6);
  EXPECT_NEAR(*summary.wait_share, 3 * 0.2 / (4 * 0.3), 1e-6);
  EXPECT_EQ(summary.gap_max, 1);
  EXPECT_EQ(summary.staleness_max, 0);
}

// In 0.3 s ASP finishes 3·3 + 1 iterations: 100 iterations take 3 s.
TEST(RunStats, AsynchronousRunOfUnevenReplicas) {
  RunStats stats(kInfo);
  const Time end = run_example(uneven_four(), "asp", stats);
  const Summary summary = stats.summary(end);
  EXPECT_EQ(summary.commits, 100);
  EXPECT_NEAR(summary.elapsed_s, 3.0, 1e-6);
  EXPECT_DOUBLE_EQ(*summary.wait_share, 0);
  EXPECT_NEAR(static_cast<double>(summary.gap_max), 20, 1);
  EXPECT_NEAR(*summary.staleness_mean, 3, 0.2) << "P − 1 in the mean, whatever the speeds";
}

TEST(RunStats, BulkAndAsynchronousRunsHaveNothingBetween) {
  for (const char* const policy : {"bsp", "asp", "ssp:3", "elastic-bsp:5"}) {
    RunStats stats(kInfo);
    ExampleJob job = uneven_four();
    job.replicas[1].leaves_at_s = 1.05;
    const Summary summary = stats.summary(run_example(job, policy, stats));
    EXPECT_FALSE(summary.groups.between) << policy;
  }
}

// The three fast ones are ready together and wait 50 ms for the slow one, which mostly comes alone.
TEST(RunStats, AGroupingRunOfUnevenReplicas) {
  RunInfo info = kInfo;
  info.epoch_samples = 3200;
  RunStats stats(info);
  const Summary summary = stats.summary(run_example(uneven_four(), gathering(3, 0.05), stats));
  EXPECT_TRUE(summary.groups.between);
  EXPECT_EQ(summary.groups.size_max, 3);
  EXPECT_EQ(summary.groups.gradients, 100);
  EXPECT_EQ(summary.commits_per_epoch(), static_cast<double>(summary.commits));
  EXPECT_EQ(summary.gradients_per_epoch(), 100.0);
  EXPECT_THAT(stats.history({}).groups.sizes.causes(), ::testing::IsSupersetOf({"full", "timer"}));
}

TEST(RunStats, TheSameRunGivesTheSameStatistics) {
  RunStats a(kInfo);
  RunStats b(kInfo);
  EXPECT_EQ(run_example(uneven_four(), "ssp:3", a), run_example(uneven_four(), "ssp:3", b));
  EXPECT_EQ(*a.summary({}).training_loss, *b.summary({}).training_loss);
  EXPECT_EQ(a.summary({}).gap_max, 4) << "SSP(3) finishes four ahead";
}

}  // namespace
}  // namespace paceline::report
