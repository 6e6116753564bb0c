// The rules of grouping, against costs added up by hand and against every division.
#include "paceline/decisions/policy/grouping.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <span>
#include <vector>

#include <gtest/gtest.h>

#include "paceline/base/rng.h"
#include "paceline/base/testing/every_choice.h"

namespace paceline::policy {
namespace {

std::size_t best_number(std::span<const double> costs, double worth) {
  return policy::best_number(costs, worth, [&](std::size_t m) { return costs[m - 1]; });
}

using paceline::testing::EveryChoice;

Duration ms(std::int64_t count) { return std::chrono::milliseconds(count); }

TEST(BestNumber, IsWhereWhatIsGainedIsMostOverWhatItCosts) {
  // m·0.2 − cost: 0.1, 0.1, 0.29, −0.1.
  EXPECT_EQ(best_number(std::vector<double>{0.1, 0.3, 0.31, 0.9}, 0.2), 3u);
  EXPECT_EQ(best_number(std::vector<double>{0.1, 0.3, 0.31, 0.9}, 1), 4u);
  EXPECT_EQ(best_number(std::vector<double>{0.19, 0.6, 0.61, 1.8}, 0.2), 1u);
}

TEST(BestNumber, IsNoneWhereNothingIsGained) {
  EXPECT_EQ(best_number({}, 1), 0u);
  EXPECT_EQ(best_number(std::vector<double>{0.1}, 0.1), 0u) << "no more than it costs";
  EXPECT_EQ(best_number(std::vector<double>{0}, 0), 0u);
}

TEST(BestNumber, IsTheLeastOfEquallyGoodOnes) {
  EXPECT_EQ(best_number(std::vector<double>{0.25, 0.5}, 0.5), 2u);
  EXPECT_EQ(best_number(std::vector<double>{0.25, 0.75}, 0.5), 1u);
}

TEST(BestNumber, IsTheSameWithAnyLowerBounds) {
  Rng rng(3);
  for (int round = 0; round < 10'000; ++round) {
    std::vector<double> costs;
    std::vector<double> least;
    for (std::size_t m = rng.below(12); m > 0; --m) {
      costs.push_back(0.25 * static_cast<double>(rng.below(16)));
      least.push_back(costs.back() - 0.25 * static_cast<double>(rng.below(8)));
    }
    const double worth = 0.25 * static_cast<double>(rng.below(4));
    std::size_t best = 0;
    double most = 0;
    for (std::size_t m = 1; m <= costs.size(); ++m) {
      const double gain = static_cast<double>(m) * worth - costs[m - 1];
      if (gain > most) best = m;
      most = std::max(most, gain);
    }
    EXPECT_EQ(policy::best_number(least, worth, [&](std::size_t m) { return costs[m - 1]; }), best);
  }
}

TEST(WindowStaysOpen, WhileWaitingCostsNoMoreThanTheUpdateThatIsSaved) {
  const GroupCosts costs{ms(100), ms(20), [](std::size_t k) { return ms(10 * static_cast<int>(k)); }};
  // 100 + 20 + 10k − 10(k + 1) = 110.
  EXPECT_TRUE(window_stays_open(1, ms(109), costs));
  EXPECT_FALSE(window_stays_open(1, ms(111), costs));
  EXPECT_TRUE(window_stays_open(2, ms(54), costs));
  EXPECT_FALSE(window_stays_open(2, ms(56), costs));
}

TEST(WindowStaysOpen, ForSomebodyWhoIsThereNowWhenNothingIsKnown) {
  const GroupCosts nothing{ms(0), ms(0), [](std::size_t) { return ms(0); }};
  EXPECT_TRUE(window_stays_open(3, ms(0), nothing));
  EXPECT_FALSE(window_stays_open(3, ms(1), nothing));
}

TEST(WindowStaysOpen, NotWhenOneMoreMakesTheReductionDearer) {
  const GroupCosts costs{ms(100), ms(0), [](std::size_t k) { return ms(k > 2 ? 150 : 0); }};
  EXPECT_TRUE(window_stays_open(1, ms(0), costs));
  EXPECT_FALSE(window_stays_open(2, ms(0), costs));
}

// ---- dp ----

struct Input {
  std::vector<Duration> waits;
  std::size_t ready = 1;
  std::size_t k_max = 1;
  std::vector<Duration> reduce;  // indexed by the number of members
  Duration global{};

  GroupCosts costs() const {
    return {global, ms(0), [this](std::size_t k) { return reduce[k]; }};
  }
};

// The cost of members first..last (of consecutive arrivals) as one group.
Duration cost(const Input& input, std::size_t first, std::size_t last) {
  const std::size_t k = last - first + 1;
  Duration sum = input.global + static_cast<std::int64_t>(k) * input.reduce[k];
  for (std::size_t q = first; q <= last; ++q) sum += input.waits[last] - input.waits[q];
  return sum;
}

// The least cost of all contiguous divisions whose first group is of each size; nothing allowed: no entry.
std::vector<Duration> best_by_first_group(const Input& input) {
  const std::size_t n = input.waits.size();
  std::vector<Duration> best(n + 1, Duration::max());
  const std::size_t most = std::max(input.k_max, input.ready);
  for (EveryChoice choose; choose.again();) {
    Duration sum{};
    std::size_t first_size = 0;
    bool allowed = true;
    for (std::size_t start = 0; start < n;) {
      const std::size_t size = 1 + choose.below(n - start);
      if (start == 0) first_size = size;
      allowed = allowed && size <= most;
      sum += cost(input, start, start + size - 1);
      start += size;
    }
    if (allowed && first_size >= input.ready) best[first_size] = std::min(best[first_size], sum);
  }
  return best;
}

Input random_input(Rng& rng) {
  Input input;
  const std::size_t n = 1 + rng.below(8);
  input.ready = 1 + rng.below(n);
  input.k_max = 1 + rng.below(n + 1);
  input.global = ms(static_cast<std::int64_t>(rng.below(200)));
  const bool steep = rng.below(2) == 0;
  for (std::size_t k = 0; k <= n; ++k)
    input.reduce.push_back(ms(static_cast<std::int64_t>(steep ? rng.below(60) : 2 * k)));
  input.waits.assign(input.ready, ms(0));
  for (std::size_t i = input.ready; i < n; ++i)
    input.waits.push_back(ms(static_cast<std::int64_t>(rng.below(150))));
  std::sort(input.waits.begin(), input.waits.end());
  return input;
}

TEST(BestFirstGroup, IsThatOfTheBestOfAllDivisions) {
  Rng rng(7);
  int larger = 0;
  int cut = 0;
  for (int i = 0; i < 5000; ++i) {
    const Input input = random_input(rng);
    const std::size_t found = best_first_group(input.waits, input.ready, input.k_max, input.costs());
    const std::vector<Duration> best = best_by_first_group(input);
    ASSERT_GE(found, input.ready) << "input " << i;
    ASSERT_LE(found, input.waits.size()) << "input " << i;
    ASSERT_EQ(best[found], *std::min_element(best.begin(), best.end())) << "input " << i;
    larger += found > input.ready ? 1 : 0;
    cut += found < input.waits.size() ? 1 : 0;
  }
  EXPECT_GT(larger, 500) << "the inputs show nothing";
  EXPECT_GT(cut, 500) << "the inputs show nothing";
}

// Two groups that cross can exchange members: no division at all is better than the contiguous ones.
TEST(BestFirstGroup, NoDivisionIsBetterThanContiguousOnes) {
  Rng rng(8);
  for (int i = 0; i < 300; ++i) {
    Input input = random_input(rng);
    while (input.waits.size() > 5) input.waits.pop_back();
    input.ready = 1;
    input.k_max = 5;
    const std::size_t n = input.waits.size();
    input.reduce.resize(6, ms(5));
    const std::vector<Duration> contiguous = best_by_first_group(input);
    Duration least = Duration::max();
    for (EveryChoice choose; choose.again();) {
      // Each takes the number of a group: one of those so far or the next.
      std::vector<std::vector<std::size_t>> groups;
      for (std::size_t q = 0; q < n; ++q) {
        const std::size_t group = choose.below(groups.size() + 1);
        if (group == groups.size()) groups.emplace_back();
        groups[group].push_back(q);
      }
      Duration sum{};
      for (const auto& group : groups) {
        sum += input.global + static_cast<std::int64_t>(group.size()) * input.reduce[group.size()];
        for (const std::size_t q : group) sum += input.waits[group.back()] - input.waits[q];
      }
      least = std::min(least, sum);
    }
    ASSERT_EQ(*std::min_element(contiguous.begin(), contiguous.end()), least) << "input " << i;
  }
}

TEST(BestFirstGroup, KeepsReadyReplicasTogetherWhateverKMaxIs) {
  const Input input{std::vector<Duration>(5, ms(0)), 4, 2, std::vector<Duration>(6, ms(0)), ms(0)};
  EXPECT_GE(best_first_group(input.waits, 4, 2, input.costs()), 4u);
}

TEST(BestFirstGroup, FreeUpdatesAreMadeAtOnceAndDearOnesTogether) {
  const std::vector<Duration> waits{ms(0), ms(10), ms(20), ms(400)};
  const auto none = [](std::size_t) { return ms(0); };
  EXPECT_EQ(best_first_group(waits, 1, 9, {ms(5), ms(0), none}), 1u);
  EXPECT_EQ(best_first_group(waits, 1, 9, {ms(100), ms(0), none}), 3u);
  EXPECT_EQ(best_first_group(waits, 1, 9, {ms(5000), ms(0), none}), 4u);
  EXPECT_EQ(best_first_group(waits, 1, 2, {ms(5000), ms(0), none}), 2u);
}

}  // namespace
}  // namespace paceline::policy
