// Leases with and without a scrap, against lists of their positions.
#include "paceline/base/lease.h"

#include <vector>

#include <gtest/gtest.h>

namespace paceline {
namespace {

std::vector<std::int64_t> positions(const Lease& lease) {
  std::vector<std::int64_t> all;
  lease.for_each_run([&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t at = begin; at < end; ++at) all.push_back(at);
  });
  return all;
}

constexpr Lease kPlain{1, 3, 8};
constexpr Lease kWithScrap{1, 6, 9, 2, 4};

TEST(Lease, APartHasTheSamplesAtItsPlaces) {
  for (const Lease& lease : {kPlain, kWithScrap}) {
    const std::vector<std::int64_t> all = positions(lease);
    for (std::int64_t from = 0; from < lease.size(); ++from) {
      for (std::int64_t to = from + 1; to <= lease.size(); ++to) {
        const Lease part = part_of(lease, from, to);
        EXPECT_EQ(part.epoch, lease.epoch);
        EXPECT_EQ(positions(part), std::vector<std::int64_t>(all.begin() + from, all.begin() + to));
        EXPECT_GT(part.end, part.begin) << "a scrap alone is no lease";
      }
    }
  }
}

TEST(Lease, BeforeAnEndAreThePositionsBelowIt) {
  constexpr std::int64_t kEpoch = 10;
  for (const Lease& lease : {kPlain, kWithScrap}) {
    for (std::int64_t total = 0; total < 3 * kEpoch; ++total) {
      std::vector<std::int64_t> left = positions(lease);
      std::erase_if(left, [&](std::int64_t at) { return kEpoch + at >= total; });
      EXPECT_EQ(positions(before(total, lease, kEpoch)), left) << total;
    }
  }
}

TEST(Lease, SaysWhichSamplesItHas) {
  EXPECT_EQ(in_words(kPlain), "samples 3 to 8 of epoch 1");
  EXPECT_EQ(in_words(kWithScrap), "samples 2 to 4 and 6 to 9 of epoch 1");
}

}  // namespace
}  // namespace paceline
