// How replicas are formed of workers and come apart, without any process.
#include "paceline/decisions/coordinator/replica_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline::coordinator {
namespace {

using ::testing::ElementsAre;

// Devices w0 to w3: w2 and w0 are a pipeline, w1 and w3 are each alone.
constexpr SteadyTime kStart{std::chrono::hours(1)};

class Replicas : public ::testing::Test {
 protected:
  Replicas() : workers_(job_), replicas_(plan_, [] { return std::string("a key"); }) {
    job_.devices.resize(4);
    for (std::size_t i = 0; i < job_.devices.size(); ++i) job_.devices[i].name = fmt::format("w{}", i);
  }

  static WorkerPeer peer(std::size_t number) { return WorkerPeer(static_cast<std::int64_t>(number)); }
  Worker& come(std::size_t device, std::size_t number) {
    EXPECT_FALSE(workers_.take_place(peer(number), job_.devices[device].name, kStart));
    Worker& worker = *workers_.find(peer(number));
    worker.joined = true;
    return worker;
  }
  // All roles taken.
  static void complete(LiveReplica& replica) {
    replica.taken.resize(replica.workers.size());
    replica.whole = replica.joined = true;
  }
  static WorkerReady part(std::int32_t replica, std::int64_t clock, std::int64_t base,
                          std::int64_t compute_ns, double loss) {
    WorkerReady ready;
    ready.replica = ReplicaId(replica);
    ready.clock = Clock(clock);
    ready.base = Version(base);
    ready.compute = Duration(compute_ns);
    ready.loss = loss;
    return ready;
  }

  const planner::Plan plan_{{{{2, 0}, {3}, 12}, {{1}, {}, 4}, {{3}, {}, 4}}, 2};
  JobSettings job_;
  WorkerTable workers_;
  ReplicaTable replicas_;
};

TEST_F(Replicas, AreFormedWhenTheLastOfTheirWorkersIsHere) {
  Worker& w0 = come(0, 0);
  EXPECT_EQ(replicas_.form(w0, workers_), nullptr);
  Worker& w3 = come(3, 1);
  LiveReplica* alone = replicas_.form(w3, workers_);
  ASSERT_NE(alone, nullptr);
  EXPECT_EQ(alone->id, ReplicaId(2));
  EXPECT_EQ(alone->place, 2u);
  Worker& w2 = come(2, 2);
  LiveReplica* pipeline = replicas_.form(w2, workers_);
  ASSERT_NE(pipeline, nullptr);
  EXPECT_EQ(pipeline->id, ReplicaId(0));
  EXPECT_THAT(pipeline->workers, ElementsAre(&w2, &w0));
  EXPECT_EQ(w0.replica, ReplicaId(0));
  EXPECT_EQ(replicas_.form(w0, workers_), nullptr) << "it is in one";
  EXPECT_EQ(replicas_.find(ReplicaId(0)), pipeline);
  EXPECT_EQ(replicas_.find(ReplicaId(1)), nullptr);
}

TEST_F(Replicas, WaitForAWorkerThatHasNotJoined) {
  Worker& w0 = come(0, 0);
  w0.joined = false;
  Worker& w2 = come(2, 1);
  EXPECT_EQ(replicas_.form(w2, workers_), nullptr);
  w0.joined = true;
  EXPECT_NE(replicas_.form(w0, workers_), nullptr);
}

TEST_F(Replicas, AreNewOnesWhenTheyAreFormedAgain) {
  Worker& w0 = come(0, 0);
  replicas_.form(come(2, 1), workers_);
  const LiveReplica gone = replicas_.dissolve(ReplicaId(0));
  EXPECT_EQ(gone.workers.size(), 2u);
  EXPECT_FALSE(w0.replica);
  workers_.remove(peer(1));
  Worker& again = come(2, 2);
  LiveReplica* formed = replicas_.form(again, workers_);
  ASSERT_NE(formed, nullptr);
  EXPECT_EQ(formed->id, ReplicaId(3));
  EXPECT_THAT(formed->workers, ElementsAre(&again, &w0));
  EXPECT_TRUE(formed->taken.empty());
}

TEST_F(Replicas, AreReadyWhenAllTheirStagesAre) {
  Worker& w0 = come(0, 0);
  Worker& w2 = come(2, 1);
  complete(*replicas_.form(w2, workers_));
  for (std::int64_t clock = 1; clock <= 3; ++clock) {
    WorkerReady last = part(0, clock, 5, 700, 0.25);
    last.loading = Duration(30);
    last.pulling = Duration(500);
    const auto first = replicas_.done(w0, last);
    ASSERT_TRUE(first.ok()) << first.status();
    EXPECT_FALSE(*first);
    WorkerReady begin = part(0, clock, 4, 900, 0);
    begin.loading = Duration(200);
    begin.pulling = Duration(100);
    const auto fact = replicas_.done(w2, begin);
    ASSERT_TRUE(fact.ok() && *fact) << fact.status();
    EXPECT_EQ((*fact)->replica, ReplicaId(0));
    EXPECT_EQ((*fact)->clock, Clock(clock));
    EXPECT_EQ((*fact)->base, Version(4)) << "as old as the oldest";
    EXPECT_EQ((*fact)->compute, Duration(900)) << "as long as the longest";
    EXPECT_EQ((*fact)->loading, Duration(30)) << "so long both did nothing else";
    EXPECT_EQ((*fact)->pulling, Duration(100));
    EXPECT_EQ((*fact)->loss, 0.25) << "the last stage knows it";
  }
}

TEST_F(Replicas, DoNotTakeAPartTwiceOrOfAnotherIteration) {
  Worker& w0 = come(0, 0);
  Worker& w2 = come(2, 1);
  LiveReplica& replica = *replicas_.form(w2, workers_);
  EXPECT_EQ(replicas_.done(w0, part(0, 1, 0, 1, 0)).status().code(), absl::StatusCode::kFailedPrecondition)
      << "not all roles are taken";
  complete(replica);
  EXPECT_TRUE(replicas_.done(w0, part(0, 1, 0, 1, 0)).ok());
  EXPECT_EQ(replicas_.done(w0, part(0, 1, 0, 1, 0)).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(replicas_.done(w2, part(0, 2, 0, 1, 0)).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(Replicas, DoNotHearWhatWasDoneForOneThatIsNoMore) {
  Worker& w0 = come(0, 0);
  Worker& w2 = come(2, 1);
  complete(*replicas_.form(w2, workers_));
  replicas_.dissolve(ReplicaId(0));
  const auto late = replicas_.done(w0, part(0, 1, 0, 1, 0));
  ASSERT_TRUE(late.ok()) << late.status();
  EXPECT_FALSE(*late);
  complete(*replicas_.form(w0, workers_));  // replica 3
  ASSERT_TRUE(replicas_.done(w2, part(3, 1, 0, 1, 0)).ok());
  const auto later = replicas_.done(w0, part(0, 1, 0, 1, 0));
  ASSERT_TRUE(later.ok()) << later.status();
  EXPECT_FALSE(*later);
}

TEST_F(Replicas, FollowAnotherPlanUnderNewNumbers) {
  Worker& w0 = come(0, 0);
  Worker& w2 = come(2, 1);
  replicas_.form(come(1, 2), workers_)->whole = true;
  replicas_.form(come(3, 3), workers_)->whole = true;
  EXPECT_FALSE(replicas_.all_whole()) << "w0 and w2 are in none yet";
  replicas_.form(w0, workers_)->whole = true;
  EXPECT_TRUE(replicas_.all_whole());
  for (const int replica : {0, 1, 2}) replicas_.dissolve(ReplicaId(replica));
  replicas_.follow({{{{0}, {}, 12}, {{2}, {}, 8}}, 2});
  EXPECT_EQ(replicas_.form(w2, workers_)->id, ReplicaId(3));
  LiveReplica* first = replicas_.form(w0, workers_);
  EXPECT_EQ(first->id, ReplicaId(4));
  EXPECT_EQ(first->place, 0u);
  EXPECT_EQ(replicas_.form(*workers_.at(DevicePlace(1)), workers_), nullptr) << "the plan leaves it out";
}

TEST_F(Replicas, AWorkerIsRefusedWhileItsPlaceIsTaken) {
  come(1, 0);
  EXPECT_EQ(workers_.take_place(peer(1), "w1", kStart)->reason, Disconnect::Reason::kPlaceTaken);
  EXPECT_EQ(workers_.take_place(peer(1), "w4", kStart)->reason, Disconnect::Reason::kNone);
  workers_.remove(peer(0));
  EXPECT_EQ(workers_.at(DevicePlace(1)), nullptr);
  EXPECT_EQ(come(1, 1).number, 1);
}

// A worker that was stopped while it came would keep its place for ever.
TEST_F(Replicas, WorkersAreMissedSoonOnceTheyHaveJoinedAndLaterBefore) {
  come(0, 0);
  come(1, 1).joined = false;
  const SteadyTime now = kStart + std::chrono::milliseconds(1);
  EXPECT_TRUE(workers_.silent(now).empty());
  const auto soon = workers_.silent(now + std::chrono::seconds(10));
  ASSERT_EQ(soon.size(), 1u);
  EXPECT_EQ(soon[0].first, peer(0));
  EXPECT_EQ(workers_.silent(now + std::chrono::seconds(40)).size(), 2u);
}

}  // namespace
}  // namespace paceline::coordinator
