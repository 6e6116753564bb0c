// Tests the order of replicas against a plain list, over random changes.
#include "paceline/decisions/policy/oldest_first.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "paceline/base/rng.h"

namespace paceline::policy {
namespace {

TEST(OldestFirst, IsAListOverRandomChanges) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    Rng rng(seed);
    OldestFirst found;
    std::vector<ReplicaId> list;
    for (int step = 0; step < 400; ++step) {
      const ReplicaId replica(static_cast<std::int32_t>(rng.below(12)));
      const auto place = std::find(list.begin(), list.end(), replica);
      ASSERT_EQ(found.here(replica), place != list.end()) << "seed " << seed;
      if (place == list.end() && rng.below(2) == 0) {
        list.push_back(replica);
        found.put(replica);
      } else {
        // Erasing a replica that is not here does nothing.
        std::erase(list, replica);
        found.erase(replica);
      }
      ASSERT_EQ(found.size(), list.size()) << "seed " << seed;
      ASSERT_EQ(found.empty(), list.empty());
      if (!list.empty()) {
        ASSERT_EQ(found.oldest(), list.front()) << "seed " << seed;
      }
    }
  }
}

}  // namespace
}  // namespace paceline::policy
