// Leases with at least so many samples, as a job wants them or as a failure shows.
#include "paceline/decisions/control/sample_ledger.h"

#include <algorithm>
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
using ::testing::Pair;

constexpr int kSome = 6;
constexpr ReplicaId kOne{0};
constexpr ReplicaId kOther{1};

// Every size of a data set, a batch and a least batch that is small, with replicas that take turns and come to grief.
TEST(SampleLedger, NoLeaseIsSmallerThanTheLeast) {
  for (std::int64_t least = 1; least <= 4; ++least) {
    for (std::int64_t size = least; size <= 24; ++size) {
      for (std::int64_t count = 1; count <= 9; ++count) {
        SampleLedger ledger(size, 2 * size, least);
        std::int64_t turn = 0;
        while (!ledger.all_committed()) {
          const ReplicaId replica(static_cast<std::int32_t>(turn++ % 3));
          const auto lease = ledger.lease(replica, turn % 2 == 0 ? count : count + 2);
          ASSERT_TRUE(lease.has_value());
          EXPECT_GE(lease->size(), least) << size << " samples in batches of " << count;
          EXPECT_LE(lease->size(), std::max(least, count + 2) + least - 1);
          turn % 4 == 0 && turn < 60 ? ledger.give_back(replica) : (void)ledger.commit(replica);
        }
      }
    }
  }
}

// Which samples nobody has, by position: a list, against the ledger's ranges.
class FreeSamples {
 public:
  FreeSamples(std::int64_t dataset_size, std::int64_t total)
      : dataset_size_(dataset_size), free_(static_cast<std::size_t>(total), true) {}
  void set(const Lease& lease, bool free) {
    lease.for_each_run([&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t at = begin; at < end; ++at) {
        auto one = free_[static_cast<std::size_t>(lease.epoch * dataset_size_ + at)];
        ASSERT_NE(one, free) << in_words(lease);
        one = free;
      }
    });
  }
  bool any_behind(const Lease& lease) const {
    const auto start = free_.begin() + lease.epoch * dataset_size_;
    const auto epoch_end = std::min(start + dataset_size_, free_.end());
    return std::find(start + lease.end, epoch_end, true) != epoch_end;
  }

 private:
  std::int64_t dataset_size_;
  std::vector<bool> free_;
};

// Samples that come back because they were too few are part of a larger lease if there are free ones behind them; and
// could_be_larger() knows it.
void leases_become_larger(std::uint64_t seed) {
  Rng rng(seed);
  const auto size = 1 + static_cast<std::int64_t>(rng.below(40));
  const auto total = size + static_cast<std::int64_t>(rng.below(100));
  std::optional<SampleLedger> ledger(std::in_place, size, total);
  FreeSamples free(size, total);
  std::map<ReplicaId, Lease> held;
  while (!ledger->all_committed()) {
    const ReplicaId replica(static_cast<std::int32_t>(rng.below(kSome)));
    if (!held.contains(replica)) {
      const auto lease = ledger->lease(replica, 1 + static_cast<std::int64_t>(rng.below(6)));
      if (!lease) continue;
      free.set(*lease, false);
      held[replica] = *lease;
      ASSERT_TRUE(lease->size() >= ledger->least() || !free.any_behind(*lease)) << in_words(*lease);
      continue;
    }
    const Lease lease = held.at(replica);
    held.erase(replica);
    if (rng.below(4) > 0) {
      ledger->commit(replica);
      continue;
    }
    free.set(lease, true);
    const std::int64_t least = lease.size() + 1;
    const bool larger = ledger->could_be_larger(replica, least);
    ledger->give_back(replica);
    if (!larger || least > 8) continue;
    ledger->raise_least(least);
    ASSERT_GE(ledger->least(), least);
    if (held.empty()) {
      const SampleLedger::Saved saved = ledger->save();
      ledger.emplace(size, total);
      ASSERT_TRUE(ledger->restore(saved));
      ASSERT_EQ(ledger->save(), saved);
    }
    // Leases until these samples come again.
    for (std::int32_t next = kSome;; ++next) {
      const Lease again = ledger->lease(ReplicaId(next), least).value();
      free.set(again, false);
      held[ReplicaId(next)] = again;
      if (again.epoch < lease.epoch || again.end <= lease.begin) continue;
      ASSERT_GE(again.size(), least) << in_words(lease) << " came back as " << in_words(again);
      break;
    }
    for (const auto& [one, again] : held) ledger->commit(one);
    held.clear();
  }
}

TEST(SampleLedger, SamplesThatWereTooFewArePartOfALargerLease) {
  for (std::uint64_t seed = 0; seed < effort::part_of(3000); ++seed) {
    leases_become_larger(seed);
    ASSERT_FALSE(::testing::Test::HasFailure()) << "seed " << seed;
  }
}

TEST(SampleLedger, AScrapGoesWithTheNextFreeSamplesOfItsEpoch) {
  SampleLedger ledger(100, 200);
  constexpr ReplicaId kThird{2};
  ledger.lease(kOne, 31);
  ledger.lease(kOther, 1);
  ledger.lease(kThird, 8);
  ledger.commit(kOne);
  EXPECT_TRUE(ledger.could_be_larger(kOther, 2));
  ledger.give_back(kOther);
  ledger.raise_least(2);
  EXPECT_EQ(ledger.lease(kOne, 31), (Lease{0, 40, 70, 31, 32})) << "31 samples in all";
  EXPECT_EQ(ledger.save().least, 2);
  EXPECT_THAT(ledger.save().open, ElementsAre(Pair(31, 70)));
  ledger.commit(kOne);
  EXPECT_THAT(ledger.save().open, ElementsAre(Pair(32, 40)));
  EXPECT_EQ(ledger.committed(), 62);
}

TEST(SampleLedger, SamplesThatCameBackAndTheNextOnesAreOneRun) {
  SampleLedger ledger(100, 200);
  ledger.lease(kOther, 1);
  ledger.lease(kOne, 31);
  ledger.commit(kOther);
  ledger.lease(kOther, 1);
  ledger.commit(kOne);
  ledger.give_back(kOther);
  ledger.raise_least(2);
  EXPECT_EQ(ledger.lease(kOne, 31), (Lease{0, 32, 63}));
}

TEST(SampleLedger, NothingThatIsTooSmallStaysReserved) {
  SampleLedger ledger(100, 200);
  ledger.lease(kOther, 1);
  ledger.reserve(kOne, 2);
  ledger.give_back(kOther);
  ledger.raise_least(3);
  EXPECT_EQ(ledger.reservations(kOne), 0);
  EXPECT_EQ(ledger.lease(kOne, 2), (Lease{0, 0, 3}));
}

TEST(SampleLedger, NothingCanBeAddedToTheLastSamplesOfAnEpoch) {
  SampleLedger ledger(5, 10);
  ledger.lease(kOne, 4);
  ledger.lease(kOther, 4);
  EXPECT_FALSE(ledger.could_be_larger(kOther, 2)) << "the next sample is of another epoch";
  ledger.commit(kOne);
  ledger.give_back(kOther);
  ledger.raise_least(2);
  EXPECT_EQ(ledger.lease(kOther, 4), (Lease{0, 4, 5}));
}

TEST(SampleLedger, TheBatchBeforeTheLastLeavesItEnough) {
  SampleLedger ledger(129, 129, 2);
  std::vector<std::int64_t> sizes;
  while (const auto lease = ledger.lease(ReplicaId(0), 32)) {
    sizes.push_back(lease->size());
    ledger.commit(ReplicaId(0));
  }
  EXPECT_THAT(sizes, ElementsAre(32, 32, 32, 31, 2));
}

}  // namespace
}  // namespace paceline::control
