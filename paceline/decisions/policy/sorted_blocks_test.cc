// Tests sorted blocks against std::set, over random changes.
#include "paceline/decisions/policy/sorted_blocks.h"

#include <iterator>
#include <set>

#include <gtest/gtest.h>

#include "paceline/base/rng.h"

namespace paceline::policy {
namespace {

std::vector<int> all_of(const SortedBlocks<int>& blocks) {
  std::vector<int> all;
  blocks.walk(blocks.begin(), [&](int entry) {
    all.push_back(entry);
    return true;
  });
  return all;
}

TEST(SortedBlocks, AnEmptySetHasNothingToCountOrToShow) {
  SortedBlocks<int> blocks;
  EXPECT_TRUE(blocks.empty());
  EXPECT_EQ(blocks.count(blocks.before(3), 9, 5), 0u);
  EXPECT_TRUE(all_of(blocks).empty());
}

TEST(SortedBlocks, CountAndWalkAsASetOverRandomChanges) {
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    Rng rng(seed);
    SortedBlocks<int> blocks;
    std::set<int> entries;
    const int range = 10 << rng.below(9);
    for (int step = 0; step < 1500; ++step) {
      const int entry = static_cast<int>(rng.below(static_cast<std::uint64_t>(range)));
      // For a third of the time the set mostly shrinks, so that blocks are joined and disappear.
      const bool put = rng.below(4) < (step % 750 < 500 ? 3u : 1u);
      if (put && entries.insert(entry).second) blocks.put(entry);
      if (!put && !entries.empty()) {
        auto victim = entries.lower_bound(entry);
        if (victim == entries.end()) victim = entries.begin();
        blocks.erase(*victim);
        entries.erase(victim);
      }
      ASSERT_EQ(blocks.size(), entries.size());
      ASSERT_EQ(blocks.empty(), entries.empty());
      if (entries.empty()) continue;
      ASSERT_EQ(blocks.front(), *entries.begin()) << "seed " << seed;
      const int until = static_cast<int>(rng.below(static_cast<std::uint64_t>(range) + 2));
      const std::size_t most = rng.below(200);
      const auto from = entries.lower_bound(entry);
      const std::ptrdiff_t between = until <= entry ? 0 : std::distance(from, entries.lower_bound(until));
      ASSERT_EQ(blocks.count(blocks.before(entry), until, most),
                std::min(most, static_cast<std::size_t>(between)))
          << "seed " << seed << ", step " << step << ": from " << entry << " until " << until;
      std::vector<int> shown;
      blocks.walk(blocks.before(entry), [&](int one) {
        shown.push_back(one);
        return shown.size() < 100;
      });
      auto expected = from;
      for (const int one : shown) ASSERT_EQ(one, *expected++) << "seed " << seed;
      ASSERT_TRUE(shown.size() == 100 || expected == entries.end()) << "seed " << seed;
    }
    EXPECT_EQ(all_of(blocks), std::vector<int>(entries.begin(), entries.end())) << "seed " << seed;
  }
}

TEST(SortedBlocks, WholeBlocksAreCountedInOneStep) {
  SortedBlocks<int> blocks;
  constexpr int kEntries = 10'000;
  for (int i = 0; i < kEntries; ++i) blocks.put(i);
  const std::int64_t before = blocks.steps();
  EXPECT_EQ(blocks.count(blocks.begin(), kEntries, kEntries), static_cast<std::size_t>(kEntries));
  EXPECT_LE(blocks.steps() - before, kEntries / 16);
}

}  // namespace
}  // namespace paceline::policy
