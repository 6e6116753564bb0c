// Algorithm 2's two pointers against looking at every pair.
#include <chrono>

#include <gtest/gtest.h>

#include "paceline/base/rng.h"
#include "paceline/decisions/policy/dssp.h"

namespace paceline::policy {
namespace {

struct Question {
  Time fast_last;
  Duration fast_interval;
  Time slow_last;
  Duration slow_interval;
  std::int64_t most;
  std::int64_t rmax;
};

std::int64_t answer(const Question& q) {
  return closest_extra_iterations(q.fast_last, q.fast_interval, q.slow_last, q.slow_interval, q.most, q.rmax);
}

std::int64_t every_pair(const Question& q) {
  std::int64_t best = 0;
  Duration least = Duration::max();
  for (std::int64_t i = 0; i <= q.most; ++i) {
    for (std::int64_t k = 0; k <= q.rmax; ++k) {
      const Time fast = q.fast_last + i * q.fast_interval;
      const Time slow = q.slow_last + q.slow_interval + k * q.slow_interval;
      if (std::chrono::abs(fast - slow) < least) {
        least = std::chrono::abs(fast - slow);
        best = i;
      }
    }
  }
  return best;
}

std::string text(const Question& q) {
  return fmt::format("fast {} every {}, slow {} every {}, most {}, rmax {}",
                     q.fast_last.time_since_epoch().count(), q.fast_interval.count(),
                     q.slow_last.time_since_epoch().count(), q.slow_interval.count(), q.most, q.rmax);
}

void compare(std::uint64_t seed, std::uint64_t largest_interval, std::uint64_t largest_lag) {
  Rng rng(seed);
  for (int i = 0; i < 20'000; ++i) {
    Question q;
    q.fast_interval = Duration(1 + static_cast<std::int64_t>(rng.below(largest_interval)));
    q.slow_interval = Duration(1 + static_cast<std::int64_t>(rng.below(largest_interval)));
    q.slow_last = Time(Duration(1000));
    q.fast_last = q.slow_last + Duration(static_cast<std::int64_t>(rng.below(largest_lag)));
    q.rmax = static_cast<std::int64_t>(rng.below(20));
    q.most = static_cast<std::int64_t>(rng.below(static_cast<std::uint64_t>(q.rmax) + 1));
    ASSERT_EQ(answer(q), every_pair(q)) << text(q);
  }
}

// Few different numbers: nearly every question has ties.
TEST(ClosestExtraIterations, AgreesWithEveryPairWhereTiesAbound) { compare(1, 6, 12); }
TEST(ClosestExtraIterations, AgreesWithEveryPairWhereTheyAreRare) { compare(2, 1'000'000, 5'000'000); }
TEST(ClosestExtraIterations, AgreesWithEveryPairWhenTheSlowOneIsLongOverdue) { compare(3, 10, 200); }

TEST(ClosestExtraIterations, OnATieTheFewest) {
  // The slow one is ready at 10, 20, 30; the fast one at 5, 15, 25: always 5 apart.
  EXPECT_EQ(answer({Time(Duration(5)), Duration(10), Time(Duration(0)), Duration(10), 2, 2}), 0);
}

TEST(ClosestExtraIterations, NoneWhenNoneIsAllowed) {
  EXPECT_EQ(answer({Time(Duration(1)), Duration(1), Time(Duration(0)), Duration(10), 0, 12}), 0);
  EXPECT_EQ(answer({Time(Duration(1)), Duration(1), Time(Duration(0)), Duration(10), -1, 12}), 0);
}

TEST(ClosestExtraIterations, StopsAtTheMost) {
  EXPECT_EQ(answer({Time(Duration(1)), Duration(1), Time(Duration(0)), Duration(10), 4, 12}), 4);
  EXPECT_EQ(answer({Time(Duration(1)), Duration(1), Time(Duration(0)), Duration(10), 9, 12}), 9);
  EXPECT_EQ(answer({Time(Duration(1)), Duration(1), Time(Duration(0)), Duration(10), 12, 12}), 9);
}

// A moment that lies further ahead than time can say is close to none.
TEST(ClosestExtraIterations, StayWithinTime) {
  const Duration fast(std::int64_t{1} << 44), slow(std::int64_t{1} << 43);
  const Time now(Duration(1000));
  const std::int64_t most = 1 << 21;
  EXPECT_EQ(answer({now, fast + Duration(1), now, slow - Duration(1), most, 0}), 0);
  EXPECT_EQ(answer({now, fast, now, Duration::max() / 2, 3, most}), 3);
}

}  // namespace
}  // namespace paceline::policy
