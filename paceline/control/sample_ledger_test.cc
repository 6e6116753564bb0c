// The ledger against a model that could not be simpler: one state for each sample of each epoch.
#include "paceline/control/sample_ledger.h"

#include <algorithm>
#include <map>
#include <optional>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/base/rng.h"

namespace paceline::control {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

enum class State { kNever, kHeld, kReturned, kDone };

// A state for each position. What is returned goes first, the lowest first; then what was never leased.
class LedgerModel {
 public:
  LedgerModel(std::int64_t dataset_size, std::int64_t total)
      : dataset_size_(dataset_size), states_(total, State::kNever) {}

  std::optional<Lease> lease(int replica, std::int64_t count) {
    for (const State wanted : {State::kReturned, State::kNever}) {
      const auto first = std::find(states_.begin(), states_.end(), wanted);
      if (first == states_.end()) continue;
      const std::int64_t begin = first - states_.begin();
      std::int64_t end = begin;
      while (end < total() && end - begin < count && states_[at(end)] == wanted &&
             end / dataset_size_ == begin / dataset_size_) {
        states_[at(end++)] = State::kHeld;
      }
      held_[replica] = {begin, end};
      const std::int64_t epoch = begin / dataset_size_;
      return Lease{static_cast<std::int32_t>(epoch), begin % dataset_size_, end - epoch * dataset_size_};
    }
    return std::nullopt;
  }
  void finish(int replica, State state) {
    for (std::int64_t i = held_[replica].first; i < held_[replica].second; ++i) states_[at(i)] = state;
    held_.erase(replica);
  }
  // What a restart finds: nobody holds anything any more.
  void restart() {
    for (State& state : states_) {
      if (state == State::kHeld) state = State::kReturned;
    }
    held_.clear();
  }
  bool holds(int replica) const { return held_.contains(replica); }
  std::int64_t count(State state) const { return std::count(states_.begin(), states_.end(), state); }
  std::int64_t total() const { return static_cast<std::int64_t>(states_.size()); }

 private:
  static std::size_t at(std::int64_t position) { return static_cast<std::size_t>(position); }
  std::int64_t dataset_size_;
  std::vector<State> states_;
  std::map<int, std::pair<std::int64_t, std::int64_t>> held_;
};

void compare(const SampleLedger& ledger, const LedgerModel& model) {
  ASSERT_EQ(ledger.committed(), model.count(State::kDone));
  ASSERT_EQ(ledger.all_committed(), model.count(State::kDone) == model.total());
  ASSERT_EQ(ledger.any_to_lease(), model.count(State::kReturned) + model.count(State::kNever) > 0);
}

void random_run(std::uint64_t seed) {
  Rng rng(seed);
  const auto dataset_size = 1 + static_cast<std::int64_t>(rng.below(40));
  const auto total = 1 + static_cast<std::int64_t>(rng.below(150));
  std::optional<SampleLedger> ledger(std::in_place, dataset_size, total);
  LedgerModel model(dataset_size, total);
  for (int step = 0; step < 400 && !ledger->all_committed(); ++step) {
    const int replica = static_cast<int>(rng.below(6));
    const std::uint64_t dice = rng.below(100);
    if (dice < 2) {
      const SampleLedger::Saved saved = ledger->save();
      ledger.emplace(dataset_size, total);
      ASSERT_TRUE(ledger->restore(saved));
      model.restart();
    } else if (!model.holds(replica)) {
      const auto count = 1 + static_cast<std::int64_t>(rng.below(20));
      ASSERT_EQ(ledger->lease(ReplicaId(replica), count), model.lease(replica, count));
    } else if (dice < 40) {
      ledger->give_back(ReplicaId(replica));
      model.finish(replica, State::kReturned);
    } else {
      const Lease held = ledger->held_by(ReplicaId(replica));
      ASSERT_EQ(ledger->commit(ReplicaId(replica)), held);
      model.finish(replica, State::kDone);
    }
    compare(*ledger, model);
  }
}

TEST(SampleLedger, DoesWhatTheModelDoes) {
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    random_run(seed);
    ASSERT_FALSE(::testing::Test::HasFailure()) << "seed " << seed;
  }
}

constexpr ReplicaId kA{0};
constexpr ReplicaId kB{1};

TEST(SampleLedger, ALeaseNeverCrossesTheEndOfAnEpoch) {
  SampleLedger ledger(10, 25);
  EXPECT_EQ(ledger.lease(kA, 8), (Lease{0, 0, 8}));
  ledger.commit(kA);
  EXPECT_EQ(ledger.lease(kA, 8), (Lease{0, 8, 10}));
  ledger.commit(kA);
  EXPECT_EQ(ledger.lease(kA, 100), (Lease{1, 0, 10}));
  ledger.commit(kA);
  EXPECT_EQ(ledger.lease(kA, 100), (Lease{2, 0, 5})) << "the last epoch is cut short";
  EXPECT_FALSE(ledger.any_to_lease());
  EXPECT_EQ(ledger.lease(kB, 1), std::nullopt);
  EXPECT_FALSE(ledger.all_committed());
  ledger.commit(kA);
  EXPECT_TRUE(ledger.all_committed());
}

TEST(SampleLedger, WhatWasGivenBackGoesFirstEvenIfItSpansEpochs) {
  SampleLedger ledger(10, 30);
  ledger.lease(kA, 10);
  ledger.lease(kB, 6);
  ledger.give_back(kA);
  ledger.give_back(kB);
  ledger.give_back(kB);  // holds none: nothing happens
  EXPECT_THAT(ledger.save().open, ElementsAre(Pair(0, 16))) << "neighbours are one range";
  EXPECT_EQ(ledger.lease(kA, 4), (Lease{0, 0, 4}));
  EXPECT_EQ(ledger.lease(kB, 100), (Lease{0, 4, 10}));
}

TEST(SampleLedger, SaveCountsLeasesInFlightAsGivenBack) {
  SampleLedger ledger(10, 30);
  ledger.lease(kA, 3);
  ledger.lease(kB, 3);
  ledger.commit(kA);
  const SampleLedger::Saved saved = ledger.save();
  EXPECT_EQ(saved.next, 6);
  EXPECT_THAT(saved.open, ElementsAre(Pair(3, 6)));
  EXPECT_EQ(ledger.held_by(kB), (Lease{0, 3, 6})) << "saving changes nothing";
}

TEST(SampleLedger, RefusesToRestoreWhatCannotBeAndStaysAsItWas) {
  const std::vector<SampleLedger::Saved> nonsense = {
      {-1, {}},                // before the start
      {31, {}},                // beyond the end
      {10, {{8, 11}}},         // open, and never leased
      {10, {{-1, 2}}},         // before the start
      {10, {{5, 5}}},          // empty
      {10, {{7, 6}}},          // backwards
      {10, {{5, 8}, {7, 9}}},  // twice
      {10, {{5, 8}, {1, 2}}},  // out of order
      {10, {{5, 8}, {5, 8}}},  // twice
      {0, {{0, 1}}},
  };
  for (const SampleLedger::Saved& saved : nonsense) {
    SampleLedger ledger(10, 30);
    EXPECT_FALSE(ledger.restore(saved));
    EXPECT_EQ(ledger.committed(), 0);
    EXPECT_EQ(ledger.save().next, 0);
    EXPECT_THAT(ledger.save().open, IsEmpty());
    EXPECT_EQ(ledger.lease(kA, 4), (Lease{0, 0, 4}));
  }
}

TEST(SampleLedger, RestoresTheBeginningAndTheEnd) {
  SampleLedger fresh(10, 30);
  EXPECT_TRUE(fresh.restore({0, {}}));
  EXPECT_EQ(fresh.committed(), 0);
  SampleLedger complete(10, 30);
  EXPECT_TRUE(complete.restore({30, {}}));
  EXPECT_TRUE(complete.all_committed());
  SampleLedger open(10, 30);
  EXPECT_TRUE(open.restore({30, {{0, 30}}}));
  EXPECT_EQ(open.committed(), 0);
  EXPECT_EQ(open.lease(kA, 99), (Lease{0, 0, 10}));
}

TEST(SampleLedgerDeathTest, BugsOfTheCallerEndTheProcess) {
  SampleLedger ledger(10, 30);
  EXPECT_DEATH(ledger.commit(kA), "holds no lease");
  EXPECT_DEATH(ledger.held_by(kA), "holds no lease");
  EXPECT_DEATH(ledger.lease(kA, 0), "asks for 0 samples");
  ledger.lease(kA, 1);
  EXPECT_DEATH(ledger.lease(kA, 1), "asks for 1 samples");
  EXPECT_DEATH(SampleLedger(0, 1), "0 samples an epoch");
}

}  // namespace
}  // namespace paceline::control
