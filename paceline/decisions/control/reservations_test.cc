// The lists against plain lists, and who has the most against a look at all of them.
#include "paceline/decisions/control/reservations.h"

#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

#include "paceline/base/rng.h"

namespace paceline::control {
namespace {

TEST(Reservations, KnowWhoHasTheMostAsALookAtAllDoes) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    Rng rng(seed);
    Reservations reservations;
    std::vector<std::vector<Lease>> lists(1 + rng.below(6));
    for (std::int64_t step = 0; step < 400; ++step) {
      const std::size_t index = rng.below(lists.size());
      const ReplicaId replica(static_cast<std::int32_t>(index));
      std::vector<Lease>& list = lists[index];
      // Now and then all go down, so that what the heap says is long out of date.
      const std::uint64_t dice = rng.below(step / 50 % 2 == 0 ? 10 : 25);
      if (dice < 5) {
        list.push_back({0, step, step + 1});
        reservations.add(replica, {list.back(), 1});
      } else if (!list.empty() && dice % 2 == 0) {
        ASSERT_EQ(reservations.take_oldest(replica).lease, list.front());
        list.erase(list.begin());
      } else if (!list.empty()) {
        ASSERT_EQ(reservations.take_newest(replica).lease, list.back());
        list.pop_back();
      }
      ASSERT_EQ(reservations.of(replica).size(), list.size());
      if (rng.below(3) > 0) continue;
      std::optional<ReplicaId> most;
      std::size_t largest = 1;
      for (std::size_t i = 0; i < lists.size(); ++i) {
        if (lists[i].size() < largest) continue;
        largest = lists[i].size();
        most = ReplicaId(static_cast<std::int32_t>(i));
      }
      ASSERT_EQ(reservations.who_has_most(), most) << "seed " << seed << ", step " << step;
      ASSERT_EQ(reservations.empty(), !most);
    }
  }
}

TEST(ReservationsDeathTest, WhereThereIsNothingNothingCanBeTaken) {
  Reservations reservations;
  EXPECT_DEATH(reservations.take_oldest(ReplicaId(3)), "nothing is reserved for replica 3");
  EXPECT_DEATH(reservations.take_newest(ReplicaId(0)), "nothing is reserved for replica 0");
}

}  // namespace
}  // namespace paceline::control
