// The checker, checked: each promise broken by hand must be noticed, and in a run where none is nothing may
// be.
#include "paceline/decisions/control/observer.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline::control {
namespace {

using ::testing::HasSubstr;
using ::testing::Optional;

constexpr std::int64_t kDataset = 10;
constexpr std::int64_t kTotal = 20;

// Shows an Observer facts and orders one by one and keeps its first complaint. Each lease is one sample
// unless said otherwise.
class Shown {
 public:
  explicit Shown(policy::Bounds bounds = {}, const std::optional<ControllerState>& start = std::nullopt)
      : observer_(bounds, kDataset, kTotal, start) {}

  Shown& join(int id) { return fact(ReplicaJoined{ReplicaId(id), "w", 4}); }
  Shown& leave(int id) { return fact(ReplicaLeft{ReplicaId(id), ""}); }
  Shown& ready(int id, int clock, int base) {
    return fact(ReplicaReady{ReplicaId(id), Clock(clock), Version(base), Duration(1), 0});
  }
  Shown& stop() { return fact(StopAsked{""}); }
  Shown& release(int id, int clock, int version, Lease lease) {
    return order(Release{ReplicaId(id), Clock(clock), Version(version), lease, {}});
  }
  Shown& release(int id, int clock, int version, Lease lease, const std::vector<Lease>& ahead) {
    Release release{ReplicaId(id), Clock(clock), Version(version), lease, {}};
    release.ahead = ahead;
    return order(release);
  }
  Shown& commit(int version, int id, int clock, Lease lease, std::int64_t samples = -1) {
    CommitRecord record;
    record.version = Version(version);
    record.members.push_back(
        {.replica = ReplicaId(id), .clock = Clock(clock), .base = Version(0), .lease = lease});
    record.samples = samples < 0 ? lease.size() : samples;
    return order(record);
  }
  Shown& commit(int version, const std::vector<CommitMember>& members) {
    CommitRecord record;
    record.version = Version(version);
    record.members = {members.begin(), members.end()};
    for (const CommitMember& member : members) record.samples += member.lease.size();
    return order(record);
  }
  Shown& discard(int id, int clock) { return order(Discard{ReplicaId(id), Clock(clock), {}}); }
  Shown& park(int id) { return order(Park{ReplicaId(id)}); }
  Shown& finish() { return order(Finish{""}); }

  // One whole iteration on its own: released on `version`, ready, committed as the next.
  Shown& iteration(int id, int clock, int version, Lease lease) {
    return release(id, clock, version, lease).ready(id, clock, version).commit(version + 1, id, clock, lease);
  }

  const std::optional<std::string>& complaint() const { return complaint_; }
  const Observer& observer() const { return observer_; }

 private:
  template <class What>
  Shown& fact(const What& what) {
    keep(observer_.see(Fact{Time{}, what}));
    return *this;
  }
  Shown& order(const Order& order) {
    keep(observer_.see(order));
    return *this;
  }
  void keep(const std::optional<std::string>& complaint) {
    if (!complaint_) complaint_ = complaint;
  }
  Observer observer_;
  std::optional<std::string> complaint_;
};

Lease sample(int begin, int epoch = 0) { return {epoch, begin, begin + 1}; }

TEST(Observer, IsContentWithAGoodRun) {
  Shown shown({.gap = 1, .version_staleness = 1});
  shown.join(0).join(1);
  shown.release(0, 1, 0, {0, 0, 5}).release(1, 1, 0, {0, 5, 10});
  shown.ready(1, 1, 0).commit(1, 1, 1, {0, 5, 10});
  shown.ready(0, 1, 0).commit(2, 0, 1, {0, 0, 5});
  shown.release(0, 2, 2, {1, 0, 5}).release(1, 2, 2, {1, 5, 10});
  shown.ready(0, 2, 2).commit(3, 0, 2, {1, 0, 5}).park(0);
  shown.ready(1, 2, 2).commit(4, 1, 2, {1, 5, 10}).park(1).finish();
  EXPECT_EQ(shown.complaint(), std::nullopt);
  EXPECT_EQ(shown.observer().largest_gap(), 1);
  EXPECT_EQ(shown.observer().largest_staleness(), 1);
}

// Two replicas, each with a sample leased and two reserved.
Shown with_reservations() {
  Shown shown;
  shown.join(0).join(1);
  shown.release(0, 1, 0, sample(0), {sample(2), sample(4)});
  shown.release(1, 1, 0, sample(1), {sample(3), sample(5)});
  return shown;
}

TEST(Observer, IsContentWithReservationsThatAreLeasedTakenAndWithdrawn) {
  Shown shown = with_reservations();
  shown.ready(0, 1, 0).commit(1, 0, 1, sample(0)).release(0, 2, 1, sample(2), {sample(4), sample(6)});
  shown.ready(0, 2, 1).commit(2, 0, 2, sample(2)).release(0, 3, 2, sample(5), {sample(7)});
  shown.join(2).release(2, 1, 2, {0, 4, 5}, {sample(6)});  // samples that 0 gave up
  shown.leave(1).ready(2, 1, 2).commit(3, 2, 1, {0, 4, 5});
  shown.release(2, 2, 3, sample(1), {sample(3), {0, 8, 10}, sample(0, 1)});  // samples that 1 gave up
  EXPECT_EQ(shown.stop().complaint(), std::nullopt);
}

TEST(Observer, NoticesWhatIsReservedTwice) {
  Shown shown = with_reservations();
  shown.ready(0, 1, 0).commit(1, 0, 1, sample(0)).release(0, 2, 1, sample(2), {sample(4), {0, 5, 8}});
  EXPECT_THAT(shown.stop().complaint(),
              Optional(HasSubstr("samples 5 to 8 of epoch 0 are reserved for replica 0 and "
                                 "reserved for replica 1")));
  Shown own;
  own.join(0).release(0, 1, 0, sample(0), {{0, 1, 3}, {0, 2, 4}});
  EXPECT_THAT(own.stop().complaint(),
              Optional(HasSubstr("reserved for replica 0 and reserved for replica 0")));
}

TEST(Observer, WhatTheReleasesOfOneFactSayIsAllAsOfItsEnd) {
  Shown shown = with_reservations();
  shown.ready(0, 1, 0).ready(1, 1, 0).commit(1, 0, 1, sample(0)).commit(2, 1, 1, sample(1));
  shown.release(0, 2, 2, sample(2), {sample(3), sample(5)}).release(1, 2, 2, sample(6), {sample(4)});
  EXPECT_EQ(shown.stop().complaint(), std::nullopt) << "they swapped what they had";
}

TEST(Observer, NoticesWhatIsReservedWhileItIsLeased) {
  Shown shown = with_reservations();
  shown.ready(0, 1, 0).commit(1, 0, 1, sample(0)).release(0, 2, 1, sample(2), {sample(4), sample(1)});
  EXPECT_THAT(shown.stop().complaint(),
              Optional(HasSubstr("reserved for replica 0 and leased to replica 1")));
  Shown later;  // leased before anything was reserved
  later.join(0).join(1).release(0, 1, 0, sample(0)).release(1, 1, 0, sample(1), {sample(2), sample(0)});
  EXPECT_THAT(later.stop().complaint(),
              Optional(HasSubstr("reserved for replica 1 and leased to replica 0")));
}

TEST(Observer, NoticesWhatIsLeasedTwiceWhereAnythingIsReserved) {
  Shown shown = with_reservations();
  shown.join(2).release(2, 1, 0, sample(1));
  EXPECT_THAT(shown.stop().complaint(), Optional(HasSubstr("leased to replica 2 and leased to replica 1")));
}

TEST(Observer, NoticesWhatIsReservedAndCommitted) {
  Shown shown = with_reservations();
  shown.ready(0, 1, 0).commit(1, 0, 1, sample(0)).release(0, 2, 1, sample(2), {sample(4), sample(0)});
  EXPECT_THAT(shown.stop().complaint(),
              Optional(HasSubstr("samples 0 to 1 of epoch 0 are reserved for replica 0 and "
                                 "committed")));
}

TEST(Observer, WhatAnotherOneLeasesIsReservedNoMore) {
  Shown shown = with_reservations();
  shown.join(2).release(2, 1, 0, {0, 4, 6});
  EXPECT_EQ(shown.complaint(), std::nullopt) << "both 0 and 1 lose their newest";
  shown.ready(2, 1, 0).commit(1, 2, 1, {0, 4, 6});
  shown.ready(0, 1, 0).commit(2, 0, 1, sample(0)).release(0, 2, 2, sample(2), {sample(4)});
  EXPECT_THAT(shown.stop().complaint(), Optional(HasSubstr("reserved for replica 0 and committed")));
}

TEST(Observer, NoticesReservationsOfSamplesThereAreNot) {
  for (const Lease lease : {Lease{0, 8, 11}, Lease{2, 0, 1}, Lease{0, 5, 5}, Lease{0, -1, 1}}) {
    Shown shown;
    shown.join(0).release(0, 1, 0, sample(0), {lease});
    EXPECT_THAT(shown.stop().complaint(), Optional(HasSubstr("there are none such")));
  }
}

TEST(Observer, NoticesAReplicaThatIsTooFarAhead) {
  Shown shown({.gap = 1});
  shown.join(0).join(1).release(0, 1, 0, sample(0)).release(1, 1, 0, sample(1));
  shown.ready(0, 1, 0).commit(1, 0, 1, sample(0)).release(0, 2, 1, sample(2));
  EXPECT_EQ(shown.complaint(), std::nullopt);
  shown.ready(0, 2, 1);
  EXPECT_THAT(shown.complaint(),
              Optional(HasSubstr("replica 0 is 2 iterations ahead of the slowest; the policy promised 1")));
}

TEST(Observer, WhoIsParkedOrGoneDoesNotCountForTheGap) {
  Shown shown({.gap = 1});
  shown.join(0).join(1).join(2);
  for (int id = 0; id < 3; ++id) shown.release(id, 1, 0, sample(id));
  shown.ready(1, 1, 0).commit(1, 1, 1, sample(1)).park(1);
  shown.leave(2);
  shown.ready(0, 1, 0).commit(2, 0, 1, sample(0));
  shown.iteration(0, 2, 2, sample(3)).iteration(0, 3, 3, sample(4)).iteration(0, 4, 4, sample(5));
  EXPECT_EQ(shown.complaint(), std::nullopt);
  EXPECT_EQ(shown.observer().largest_gap(), 1);
}

TEST(Observer, NoticesStaleness) {
  Shown shown({.gap = {}, .version_staleness = 0});
  shown.join(0).join(1).release(0, 1, 0, sample(0)).release(1, 1, 0, sample(1));
  shown.ready(0, 1, 0).commit(1, 0, 1, sample(0));
  EXPECT_EQ(shown.complaint(), std::nullopt);
  shown.ready(1, 1, 0).commit(2, 1, 1, sample(1));
  EXPECT_THAT(shown.complaint(), Optional(HasSubstr("commit 2 has staleness 1; the policy promised 0")));
}

TEST(Observer, NoticesAContributionCommittedTwice) {
  Shown shown;
  shown.join(0).iteration(0, 1, 0, sample(0)).commit(2, 0, 1, sample(0));
  EXPECT_THAT(shown.complaint(),
              Optional(HasSubstr("commit 2 takes iteration 1 of replica 0, which has no such gradient")));
}

TEST(Observer, NoticesACommitOfWhatIsNotFinished) {
  EXPECT_THAT(Shown().join(0).release(0, 1, 0, sample(0)).commit(1, 0, 1, sample(0)).complaint(),
              Optional(HasSubstr("no such gradient")));
  EXPECT_THAT(
      Shown().join(0).release(0, 1, 0, sample(0)).ready(0, 1, 0).commit(1, 0, 2, sample(0)).complaint(),
      Optional(HasSubstr("iteration 2 of replica 0, which has no such gradient")));
  EXPECT_THAT(Shown()
                  .join(0)
                  .release(0, 1, 0, sample(0))
                  .ready(0, 1, 0)
                  .leave(0)
                  .commit(1, 0, 1, sample(0))
                  .complaint(),
              Optional(HasSubstr("no such gradient")))
      << "of one that left";
}

TEST(Observer, NoticesOtherSamplesThanWereLeased) {
  EXPECT_THAT(
      Shown().join(0).release(0, 1, 0, sample(0)).ready(0, 1, 0).commit(1, 0, 1, sample(1)).complaint(),
      Optional(HasSubstr("no such gradient")));
}

TEST(Observer, NoticesAWrongNumberOfSamples) {
  EXPECT_THAT(
      Shown().join(0).release(0, 1, 0, sample(0)).ready(0, 1, 0).commit(1, 0, 1, sample(0), 2).complaint(),
      Optional(HasSubstr("commit 1 says 2 samples, not 1")));
}

TEST(Observer, NoticesAHoleInTheVersions) {
  EXPECT_THAT(
      Shown().join(0).release(0, 1, 0, sample(0)).ready(0, 1, 0).commit(2, 0, 1, sample(0)).complaint(),
      Optional(HasSubstr("commit 2 follows commit 0")));
  EXPECT_THAT(Shown().join(0).iteration(0, 1, 0, sample(0)).iteration(0, 2, 0, sample(1)).complaint(),
              Optional(HasSubstr("commit 1 follows commit 1")));
}

TEST(Observer, NoticesAReleaseOfOneThatDoesNotWait) {
  EXPECT_THAT(Shown().join(0).release(0, 1, 0, sample(0)).release(0, 1, 0, sample(1)).complaint(),
              Optional(HasSubstr("replica 0 is released while it does not wait")))
      << "it computes";
  EXPECT_THAT(
      Shown().join(0).release(0, 1, 0, sample(0)).ready(0, 1, 0).release(0, 2, 0, sample(1)).complaint(),
      Optional(HasSubstr("replica 0 is released while it does not wait")))
      << "its gradient is not committed";
  EXPECT_THAT(Shown().join(0).leave(0).release(0, 1, 0, sample(0)).complaint(),
              Optional(HasSubstr("replica 0 is released and is not here")));
}

TEST(Observer, NoticesAnIterationThatIsAskedForAgain) {
  EXPECT_THAT(Shown().join(0).iteration(0, 1, 0, sample(0)).release(0, 1, 1, sample(1)).complaint(),
              Optional(HasSubstr("replica 0 is asked for iteration 1 and has done 1")));
  EXPECT_THAT(Shown().join(0).iteration(0, 5, 0, sample(0)).park(0).release(0, 4, 1, sample(1)).complaint(),
              Optional(HasSubstr("replica 0 is asked for iteration 4 and has done 5")))
      << "also after it was parked";
}

TEST(Observer, NoticesAReleaseOnAVersionThatIsNotThereYet) {
  EXPECT_THAT(Shown().join(0).release(0, 1, 1, sample(0)).complaint(),
              Optional(HasSubstr("replica 0 is sent to version 1")));
}

TEST(Observer, NoticesAReadyFromOneThatWasNotReleased) {
  EXPECT_THAT(Shown().join(0).ready(0, 1, 0).complaint(),
              Optional(HasSubstr("replica 0 is ready and was not released")));
}

struct Twice {
  Lease first;
  Lease second;
};

TEST(Observer, NoticesASampleCommittedTwice) {
  const Twice overlaps[] = {{{0, 2, 5}, {0, 2, 5}},
                            {{0, 2, 5}, {0, 4, 6}},
                            {{0, 2, 5}, {0, 0, 3}},
                            {{0, 2, 5}, {0, 3, 4}},
                            {{0, 2, 5}, {0, 0, 9}}};
  for (const Twice& leases : overlaps) {
    EXPECT_THAT(
        Shown().join(0).iteration(0, 1, 0, leases.first).iteration(0, 2, 1, leases.second).complaint(),
        Optional(HasSubstr("are committed twice")));
  }
  EXPECT_EQ(Shown().join(0).iteration(0, 1, 0, {0, 2, 5}).iteration(0, 2, 1, {1, 2, 5}).complaint(),
            std::nullopt)
      << "the same of another epoch";
}

TEST(Observer, WhoseGradientIsDiscardedWaits) {
  Shown shown;
  shown.join(0).join(1).release(0, 1, 0, {0, 0, 5}).release(1, 1, 0, {0, 5, 10});
  shown.ready(0, 1, 0).discard(0, 1).release(0, 2, 0, {0, 0, 5});
  shown.ready(0, 2, 0).ready(1, 1, 0).commit(1, 0, 2, {0, 0, 5}).commit(2, 1, 1, {0, 5, 10});
  EXPECT_EQ(shown.complaint(), std::nullopt);
  EXPECT_THAT(shown.commit(3, 0, 1, {0, 0, 5}).complaint(), Optional(HasSubstr("no such gradient")));
}

TEST(Observer, WhatOneThatLeftHadFinishedIsDiscardedOnce) {
  Shown shown;
  shown.join(0).release(0, 1, 0, sample(0)).ready(0, 1, 0).leave(0).discard(0, 1);
  EXPECT_EQ(shown.complaint(), std::nullopt);
  EXPECT_THAT(shown.discard(0, 1).complaint(),
              Optional(HasSubstr("iteration 1 of replica 0 is discarded, which has no such gradient")));
}

TEST(Observer, NoticesADiscardOfWhatIsNotFinished) {
  const auto computing = [] {
    Shown shown;
    return shown.join(0).release(0, 1, 0, sample(0));
  };
  EXPECT_EQ(computing().ready(0, 1, 0).discard(0, 1).complaint(), std::nullopt);
  for (Shown shown :
       {computing().discard(0, 1), computing().leave(0).discard(0, 1),
        computing().ready(0, 1, 0).discard(0, 2), computing().ready(0, 1, 0).leave(0).discard(0, 2),
        computing().ready(0, 1, 0).discard(1, 1),
        computing().ready(0, 1, 0).commit(1, 0, 1, sample(0)).discard(0, 1),
        computing().ready(0, 1, 0).commit(1, 0, 1, sample(0)).leave(0).discard(0, 1),
        computing().ready(0, 1, 0).discard(0, 1).discard(0, 1)}) {
    EXPECT_THAT(shown.complaint(), Optional(HasSubstr("is discarded, which has no such gradient")));
  }
}

TEST(Observer, NoticesAnEndBeforeTheEnd) {
  EXPECT_THAT(Shown().join(0).iteration(0, 1, 0, {0, 0, 10}).finish().complaint(),
              Optional(HasSubstr("the run ends and not every sample was committed")));
  EXPECT_THAT(
      Shown().join(0).iteration(0, 1, 0, {0, 0, 9}).iteration(0, 2, 1, {1, 0, 10}).finish().complaint(),
      Optional(HasSubstr("the run ends")));
  EXPECT_EQ(Shown().join(0).iteration(0, 1, 0, {0, 0, 10}).stop().finish().complaint(), std::nullopt)
      << "unless a stop was asked for";
}

TEST(Observer, KnowsWhatARestoredRunHadDone) {
  const ControllerState start{Version(7), {12, {{3, 5}}}, {}};
  EXPECT_THAT(Shown({}, start).join(0).iteration(0, 1, 7, {0, 2, 3}).complaint(),
              Optional(HasSubstr("committed twice")));
  EXPECT_THAT(Shown({}, start).join(0).iteration(0, 1, 0, {0, 3, 5}).complaint(),
              Optional(HasSubstr("commit 1 follows commit 7")));
  Shown rest({}, start);
  rest.join(0).iteration(0, 1, 7, {0, 3, 5}).iteration(0, 2, 8, {1, 2, 10}).finish();
  EXPECT_EQ(rest.complaint(), std::nullopt);
}

// ---- The quota of a superstep ----

// Iterations of one sample each; the versions and leases are kept here.
class Supersteps {
 public:
  explicit Supersteps(std::int64_t quota) : shown_({.gap = {}, .version_staleness = {}, .quota = quota}) {}

  Supersteps& join(int id) {
    shown_.join(id);
    return release(id);
  }
  // Released after it was parked.
  Supersteps& release(int id) {
    const Lease lease = sample(position_ % 10, position_ / 10);
    ++position_;
    leases_[id] = lease;
    shown_.release(id, ++clocks_[id], version_, lease);
    return *this;
  }
  Supersteps& leave(int id) {
    shown_.leave(id);
    return *this;
  }
  Supersteps& park(int id) {
    shown_.park(id);
    return *this;
  }
  // Finishes an iteration and is held.
  Supersteps& hold(int id) {
    shown_.ready(id, clocks_[id], version_);
    return *this;
  }
  Supersteps& commit(const std::vector<int>& ids) {
    std::vector<CommitMember> members;
    for (const int id : ids) {
      members.push_back({ReplicaId(id), Clock(clocks_[id]), Version(0), leases_[id], 0, 0});
    }
    shown_.commit(++version_, members);
    return *this;
  }
  // Finishes an iteration, which commits alone.
  Supersteps& lone(int id) { return hold(id).commit({id}).release(id); }
  // All meet. Requires: they are held.
  Supersteps& barrier(const std::vector<int>& ids) {
    commit(ids);
    for (const int id : ids) release(id);
    return *this;
  }
  const std::optional<std::string>& complaint() const { return shown_.complaint(); }

 private:
  Shown shown_;
  std::map<int, int> clocks_;
  std::map<int, Lease> leases_;
  int version_ = 0;
  int position_ = 0;
};

constexpr const char* kTooMany = "iterations since all were ready twice; the policy promised 2";

TEST(ObserverQuota, CountsFromTheMomentWhenAllWereReadyTwice) {
  Supersteps run(2);
  run.join(0).join(1).lone(0).lone(0).lone(0).lone(0).lone(1).lone(1);  // measured
  run.lone(0).hold(0).lone(1).hold(1).barrier({0, 1});
  run.lone(0).lone(0).lone(0).lone(1).lone(1).lone(1).lone(1);
  EXPECT_EQ(run.complaint(), std::nullopt);
  run.lone(1);
  EXPECT_THAT(run.complaint(), Optional(HasSubstr("replica 1 finished 3 iterations since all were ready")));
}

TEST(ObserverQuota, ABarrierIsOfAllWhoAreLive) {
  Supersteps run(2);
  run.join(0).join(1).join(2).lone(0).lone(0).lone(1).lone(1).lone(2).lone(2);
  run.lone(0).hold(0).lone(1).hold(1).barrier({0, 1});
  EXPECT_EQ(run.complaint(), std::nullopt);
  EXPECT_THAT(run.lone(0).complaint(), Optional(HasSubstr(kTooMany))) << "replica 2 was not in it";
}

TEST(ObserverQuota, WhoIsParkedOrGoneIsNotWaitedFor) {
  for (const bool parked : {true, false}) {
    Supersteps run(2);
    run.join(0).join(1).join(2).lone(0).lone(0).lone(1).lone(1).lone(2);
    if (parked) {
      run.hold(2).commit({2}).park(2);
    } else {
      run.leave(2);
    }
    run.lone(0).hold(0).hold(1).barrier({0, 1}).lone(0).lone(0).lone(1).lone(1).lone(1).lone(1);
    EXPECT_EQ(run.complaint(), std::nullopt);
    EXPECT_THAT(run.lone(1).complaint(), Optional(HasSubstr(kTooMany)));
  }
}

TEST(ObserverQuota, TheMomentMayComeWhenOneLeaves) {
  Supersteps run(2);
  run.join(0).join(1).join(2).lone(0).lone(0).lone(1).lone(1).leave(2).lone(0).lone(0);
  EXPECT_EQ(run.complaint(), std::nullopt);
  EXPECT_THAT(run.lone(0).complaint(), Optional(HasSubstr(kTooMany)));
}

TEST(ObserverQuota, WhoJoinsBeforeTheMomentIsBoundAndWhoJoinsLaterIsNot) {
  Supersteps run(2);
  run.join(0).lone(0).join(1).lone(0).lone(0).lone(0).lone(1).lone(1).join(2);
  for (int i = 0; i < 5; ++i) run.lone(2);
  EXPECT_EQ(run.lone(1).lone(1).complaint(), std::nullopt);
  EXPECT_THAT(run.lone(1).complaint(), Optional(HasSubstr(kTooMany)));
}

TEST(ObserverQuota, WhoIsReleasedAgainAfterItWasParkedHasJoined) {
  Supersteps run(2);
  run.join(0).join(1).lone(0).lone(0).lone(1).lone(1).hold(1).commit({1}).park(1).release(1);
  for (int i = 0; i < 5; ++i) run.lone(1);
  EXPECT_EQ(run.complaint(), std::nullopt);
}

TEST(ObserverQuota, WhoIsAloneMeetsOnlyItself) {
  Supersteps run(1);
  run.join(0);
  for (int i = 0; i < 9; ++i) run.lone(0);
  EXPECT_EQ(run.complaint(), std::nullopt);
}

}  // namespace
}  // namespace paceline::control
