// Each block is reported once, when its last float comes, in any order.
#include "paceline/parameters/exchange/made_blocks.h"

#include <algorithm>
#include <map>
#include <random>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "paceline/parameters/exchange/commit_exchange.h"

namespace paceline::exchange {
namespace {

ps::Layout layout() {
  ps::Layout layout;
  layout.add("a", ps::TensorKind::kParameter, {kLeastBlock + 100});
  layout.add("frozen", ps::TensorKind::kConstant, {3 * kLeastBlock});
  layout.add("mean", ps::TensorKind::kStatistic, {33});
  layout.add("b", ps::TensorKind::kParameter, {kLeastBlock / 2});
  return layout;
}

// The same for each float.
std::vector<bool> moving_floats(const ps::Layout& part, std::int64_t floats) {
  std::vector<bool> moving(static_cast<std::size_t>(floats), false);
  for (std::int64_t offset = 0; offset < floats; offset += part.size()) {
    for (const ps::Layout::Range& range : part.moving())
      std::fill(moving.begin() + offset + range.begin, moving.begin() + offset + range.end, true);
  }
  return moving;
}

TEST(MadeBlocks, EachIsToldOfOnceAsSoonAsItIsWhole) {
  const ps::Layout part = layout();
  std::mt19937 random(1);
  for (const std::int64_t floats : {part.size(), 2 * part.size()}) {
    const std::vector<bool> moving = moving_floats(part, floats);
    // Ranges of any size that cover the floats that move.
    std::vector<std::pair<std::int64_t, std::int64_t>> ranges;
    for (std::int64_t at = 0; at < floats;) {
      if (!moving[static_cast<std::size_t>(at)]) {
        ++at;
        continue;
      }
      std::int64_t end = at;
      const auto longest = static_cast<std::int64_t>(1 + random() % (2 * kLeastBlock));
      while (end < floats && end - at < longest && moving[static_cast<std::size_t>(end)]) ++end;
      ranges.emplace_back(at, end);
      at = end;
    }
    MadeBlocks blocks(part, floats);
    EXPECT_TRUE(blocks.any());
    for (int version = 0; version < 20; ++version) {
      std::shuffle(ranges.begin(), ranges.end(), random);
      blocks.begin();
      std::vector<bool> left = moving;
      std::map<std::int64_t, int> told;
      bool over = false;
      for (const auto& [begin, end] : ranges) {
        std::fill(left.begin() + begin, left.begin() + end, false);
        blocks.add(begin, end, [&](std::int64_t block, bool last) {
          EXPECT_FALSE(over);
          over = last;
          ++told[block];
          const std::int64_t block_end = std::min(floats, block + block_floats(floats));
          EXPECT_TRUE(
              std::none_of(left.begin() + block, left.begin() + block_end, [](bool one) { return one; }));
        });
      }
      EXPECT_TRUE(over);
      const std::vector<bool> expected = moving_blocks(part, floats);
      for (std::size_t block = 0; block < expected.size(); ++block)
        EXPECT_EQ(told[block_begin(floats, block)], expected[block] ? 1 : 0) << block;
    }
  }
}

TEST(MadeBlocks, HasNoBlocksIfAllTensorsAreConstants) {
  ps::Layout constants;
  constants.add("frozen", ps::TensorKind::kConstant, {100});
  EXPECT_FALSE(MadeBlocks(constants, constants.size()).any());
}

}  // namespace
}  // namespace paceline::exchange
