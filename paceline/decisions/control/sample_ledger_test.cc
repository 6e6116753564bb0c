// The ledger against a model that could not be simpler: one state for each sample of each epoch.
#include "paceline/decisions/control/sample_ledger.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <optional>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/base/rng.h"
#include "paceline/base/testing/effort.h"

namespace paceline::control {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

enum class State { kNever, kHeld, kReserved, kReturned, kDone };

// A state for each position, and a list of reservations for each replica. What is returned goes first, the
// lowest first; then what was never leased; then what is reserved for others.
class LedgerModel {
 public:
  LedgerModel(std::int64_t dataset_size, std::int64_t total)
      : dataset_size_(dataset_size), states_(total, State::kNever) {}

  std::optional<Lease> lease(int replica, std::int64_t count) {
    if (!reserved_[replica].empty()) {
      const Reserved oldest = reserved_[replica].front();
      if (4 * std::abs(oldest.asked - count) <= oldest.asked) {
        reserved_[replica].erase(reserved_[replica].begin());
        mark(oldest.range, State::kHeld);
        held_[replica] = oldest.range;
        return to_lease(oldest.range);
      }
      withdraw(replica);
    }
    if (any_free()) return take(replica, count);
    int most = -1;
    for (const auto& [id, list] : reserved_) {
      if (!list.empty() && (most < 0 || list.size() >= reserved_[most].size())) most = id;
    }
    if (most < 0) return std::nullopt;
    let_go(most);
    return take(replica, count);
  }
  bool reserve(int replica, std::int64_t count) {
    if (!any_free()) return false;
    const bool held = held_.contains(replica);
    const auto before = held_[replica];
    take(replica, count);
    mark(held_[replica], State::kReserved);
    reserved_[replica].push_back({held_[replica], count});
    held_[replica] = before;
    if (!held) held_.erase(replica);
    return true;
  }
  void withdraw(int replica) {
    while (!reserved_[replica].empty()) let_go(replica);
  }
  std::vector<Lease> reserved_for(int replica) {
    std::vector<Lease> leases;
    for (const Reserved& one : reserved_[replica]) leases.push_back(to_lease(one.range));
    return leases;
  }
  // The open ranges that a restart would find: all that is leased or returned, and all that is reserved
  // unless nothing above it was ever leased.
  SampleLedger::Saved saved() const {
    SampleLedger::Saved saved;
    saved.end = end_;
    saved.next = total();
    while (saved.next > 0 && states_[at(saved.next - 1)] == State::kNever) --saved.next;
    while (saved.next > 0 && states_[at(saved.next - 1)] == State::kReserved) --saved.next;
    for (std::int64_t i = 0; i < saved.next; ++i) {
      if (states_[at(i)] == State::kDone) continue;
      if (!saved.open.empty() && saved.open.back().second == i) {
        saved.open.back().second = i + 1;
      } else {
        saved.open.emplace_back(i, i + 1);
      }
    }
    return saved;
  }

 private:
  struct Reserved {
    std::pair<std::int64_t, std::int64_t> range;
    std::int64_t asked;
  };
  bool any_free() const { return count(State::kReturned) + count(State::kNever) > 0; }
  // A reservation's samples count as never leased if nothing above them was.
  void let_go(int replica) {
    mark(reserved_[replica].back().range, State::kReturned);
    reserved_[replica].pop_back();
    std::int64_t top = total();
    while (top > 0 && states_[at(top - 1)] == State::kNever) --top;
    while (top > 0 && states_[at(top - 1)] == State::kReturned) states_[at(--top)] = State::kNever;
  }
  void mark(std::pair<std::int64_t, std::int64_t> range, State state) {
    for (std::int64_t i = range.first; i < range.second; ++i) states_[at(i)] = state;
  }
  Lease to_lease(std::pair<std::int64_t, std::int64_t> range) const {
    const std::int64_t epoch = range.first / dataset_size_;
    return {static_cast<std::int32_t>(epoch), range.first - epoch * dataset_size_,
            range.second - epoch * dataset_size_};
  }
  std::optional<Lease> take(int replica, std::int64_t count) {
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
      return to_lease({begin, end});
    }
    return std::nullopt;
  }

 public:
  void finish(int replica, State state) {
    for (std::int64_t i = held_[replica].first; i < held_[replica].second; ++i) states_[at(i)] = state;
    held_.erase(replica);
  }
  // Continues from saved(): no replica holds anything any more.
  void restart() {
    const SampleLedger::Saved found = saved();
    for (std::int64_t i = 0; i < total(); ++i) {
      State& state = states_[at(i)];
      if (state != State::kDone) state = i < found.next ? State::kReturned : State::kNever;
    }
    held_.clear();
    reserved_.clear();
  }
  // False if a sample from there on is done.
  bool end_at(std::int64_t total) {
    if (std::find(states_.begin() + total, states_.end(), State::kDone) != states_.end()) return false;
    states_.resize(at(total));
    end_ = total;
    for (auto& [replica, range] : held_) cut(range);
    std::erase_if(held_, [](const auto& one) { return one.second.first == one.second.second; });
    for (auto& [replica, list] : reserved_) {
      for (Reserved& one : list) cut(one.range);
      std::erase_if(list, [](const Reserved& one) { return one.range.first == one.range.second; });
    }
    return true;
  }
  bool holds(int replica) const { return held_.contains(replica); }
  std::int64_t count(State state) const { return std::count(states_.begin(), states_.end(), state); }
  std::int64_t total() const { return static_cast<std::int64_t>(states_.size()); }

 private:
  void cut(std::pair<std::int64_t, std::int64_t>& range) const {
    range = {std::min(range.first, total()), std::min(range.second, total())};
  }
  static std::size_t at(std::int64_t position) { return static_cast<std::size_t>(position); }
  std::int64_t dataset_size_;
  std::vector<State> states_;
  std::optional<std::int64_t> end_;
  std::map<int, std::pair<std::int64_t, std::int64_t>> held_;
  std::map<int, std::vector<Reserved>> reserved_;
};

constexpr int kReplicas = 6;

void compare(const SampleLedger& ledger, LedgerModel& model) {
  ASSERT_EQ(ledger.committed(), model.count(State::kDone));
  if (ledger.total() != kUnknownTotal) {
    ASSERT_EQ(ledger.total(), model.total());
    ASSERT_EQ(ledger.all_committed(), model.count(State::kDone) == model.total());
    const std::int64_t left =
        model.count(State::kReturned) + model.count(State::kNever) + model.count(State::kReserved);
    ASSERT_EQ(ledger.any_to_lease(), left > 0);
    ASSERT_EQ(ledger.left_to_lease(), left);
  }
  ASSERT_EQ(ledger.save(), model.saved());
  for (int replica = 0; replica < kReplicas; ++replica) {
    ASSERT_EQ(ledger.holds(ReplicaId(replica)), model.holds(replica)) << replica;
    ASSERT_EQ(ledger.reserved_for(ReplicaId(replica)), model.reserved_for(replica)) << replica;
    ASSERT_EQ(ledger.reservations(ReplicaId(replica)),
              static_cast<std::int64_t>(model.reserved_for(replica).size()));
  }
}

// More than all steps of a run can lease.
constexpr std::int64_t kMany = 20'000;

// `reserves`: how many of a hundred steps reserve something. `unknown`: the number of samples is, for a while.
void random_run(std::uint64_t seed, std::uint64_t reserves, bool unknown) {
  Rng rng(seed);
  const auto dataset_size = 1 + static_cast<std::int64_t>(rng.below(40));
  const auto total = 1 + static_cast<std::int64_t>(rng.below(150));
  std::optional<SampleLedger> ledger(std::in_place, dataset_size, unknown ? kUnknownTotal : total);
  LedgerModel model(dataset_size, unknown ? kMany : total);
  for (int step = 0; step < 400 && !ledger->all_committed(); ++step) {
    const int replica = static_cast<int>(rng.below(kReplicas));
    if (rng.below(100) < reserves) {
      const auto count = 1 + static_cast<std::int64_t>(rng.below(seed % 2 == 0 ? 20 : 3));
      ASSERT_EQ(ledger->reserve(ReplicaId(replica), count), model.reserve(replica, count));
      compare(*ledger, model);
    }
    const std::uint64_t dice = rng.below(100);
    if (dice < 2) {
      const SampleLedger::Saved saved = ledger->save();
      ledger.emplace(dataset_size, unknown ? kUnknownTotal : total);
      ASSERT_TRUE(ledger->restore(saved));
      model.restart();
    } else if (dice < 8) {
      ledger->withdraw(ReplicaId(replica));
      model.withdraw(replica);
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
    if (unknown && ledger->total() == kUnknownTotal && rng.below(20) == 0) {
      const auto end = 1 + static_cast<std::int64_t>(rng.below(150));
      ASSERT_EQ(ledger->end_at(end), model.end_at(end));
      if (ledger->total() == end) {
        ASSERT_TRUE(ledger->end_at(end));
        ASSERT_FALSE(ledger->end_at(end + 1)) << "another end is known";
      }
    }
    compare(*ledger, model);
  }
}

TEST(SampleLedger, DoesWhatTheModelDoes) {
  constexpr std::uint64_t kRuns = effort::kSanitized ? 25 : 1000;
  for (const std::uint64_t reserves : {0, 20, 60, 95}) {
    for (std::uint64_t seed = 0; seed < kRuns; ++seed) {
      random_run(seed, reserves, seed % 4 == 3);
      ASSERT_FALSE(::testing::Test::HasFailure()) << reserves << " reserve, seed " << seed;
    }
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

TEST(SampleLedger, WhatIsReservedIsLeasedInItsOrder) {
  SampleLedger ledger(10, 30);
  ledger.lease(kA, 4);
  EXPECT_TRUE(ledger.reserve(kA, 4));
  EXPECT_TRUE(ledger.reserve(kA, 4)) << "cut short by the end of the epoch";
  EXPECT_TRUE(ledger.reserve(kA, 4));
  EXPECT_THAT(ledger.reserved_for(kA), ElementsAre(Lease{0, 4, 8}, Lease{0, 8, 10}, Lease{1, 0, 4}));
  EXPECT_EQ(ledger.left_to_lease(), 26);
  EXPECT_EQ(ledger.lease(kB, 4), (Lease{1, 4, 8}));
  ledger.give_back(kB);
  for (const Lease next :
       {Lease{0, 4, 8}, Lease{0, 8, 10}, Lease{1, 0, 4}, Lease{1, 4, 8}, Lease{1, 8, 10}}) {
    ledger.commit(kA);
    EXPECT_EQ(ledger.lease(kA, 4), next);
  }
}

TEST(SampleLedger, WhenNothingElseIsLeftTheNewestOfWhoHasTheMostIsTaken) {
  SampleLedger ledger(12, 12);
  for (const ReplicaId replica : {kA, kB, kA, kB, kA, kB}) ledger.reserve(replica, 2);
  EXPECT_FALSE(ledger.reserve(kA, 1));
  constexpr ReplicaId kC{2};
  EXPECT_EQ(ledger.lease(kC, 9), (Lease{0, 10, 12})) << "as many: of the highest number";
  ledger.commit(kC);
  EXPECT_EQ(ledger.lease(kC, 1), (Lease{0, 8, 9})) << "A has more";
  ledger.commit(kC);
  EXPECT_EQ(ledger.lease(kC, 2), (Lease{0, 9, 10})) << "what is left of that goes first";
  EXPECT_THAT(ledger.reserved_for(kA), ElementsAre(Lease{0, 0, 2}, Lease{0, 4, 6}));
  EXPECT_THAT(ledger.reserved_for(kB), ElementsAre(Lease{0, 2, 4}, Lease{0, 6, 8}));
  EXPECT_EQ(ledger.lease(kA, 2), (Lease{0, 0, 2}));
  ledger.commit(kA);
  ledger.commit(kC);
  for (const Lease next : {Lease{0, 6, 8}, Lease{0, 2, 4}, Lease{0, 4, 6}}) {
    EXPECT_TRUE(ledger.any_to_lease());
    EXPECT_EQ(ledger.lease(kC, 2), next);
    ledger.commit(kC);
  }
  EXPECT_FALSE(ledger.any_to_lease());
  EXPECT_EQ(ledger.lease(kC, 2), std::nullopt);
}

TEST(SampleLedger, WhatNoLongerFitsIsLeasedAnewAndASmallChangeFits) {
  for (const std::int64_t now : {6, 8, 10, 5, 11}) {
    SampleLedger ledger(100, 100);
    ledger.reserve(kA, 8);
    ledger.reserve(kA, 8);
    const bool fits = now >= 6 && now <= 10;
    EXPECT_EQ(ledger.lease(kA, now)->size(), fits ? 8 : now) << now;
    EXPECT_EQ(ledger.reservations(kA), fits ? 1 : 0);
  }
}

TEST(SampleLedger, WhatIsReservedCountsAsNeverLeasedWhenItIsSavedOrWithdrawn) {
  SampleLedger ledger(10, 30);
  ledger.lease(kA, 3);
  for (const ReplicaId replica : {kA, kB, kA}) ledger.reserve(replica, 3);
  EXPECT_EQ(ledger.save().next, 3);
  EXPECT_THAT(ledger.save().open, ElementsAre(Pair(0, 3)));
  ledger.lease(kB, 3);
  EXPECT_EQ(ledger.save().next, 9) << "from 6 to 9 is leased";
  EXPECT_THAT(ledger.save().open, ElementsAre(Pair(0, 9)));
  ledger.withdraw(kA);
  EXPECT_EQ(ledger.lease(ReplicaId(2), 9), (Lease{0, 3, 6})) << "below what is leased it is returned";
  EXPECT_EQ(ledger.lease(ReplicaId(3), 9), (Lease{0, 9, 10})) << "above it, it never was";
}

TEST(SampleLedgerDeathTest, BugsOfTheCallerEndTheProcess) {
  SampleLedger ledger(10, 30);
  EXPECT_DEATH(ledger.commit(kA), "holds no lease");
  EXPECT_DEATH(ledger.held_by(kA), "holds no lease");
  EXPECT_DEATH(ledger.lease(kA, 0), "asks for 0 samples");
  ledger.lease(kA, 1);
  EXPECT_DEATH(ledger.lease(kA, 1), "asks for 1 samples");
  EXPECT_DEATH(ledger.reserve(kA, 0), "0 samples are to be reserved");
  EXPECT_DEATH(SampleLedger(0, 1), "0 samples an epoch");
}

}  // namespace
}  // namespace paceline::control
