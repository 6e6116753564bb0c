// A member killed at every step of every schedule: the survivors begin again without it, and exactly one
// attempt counts.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "paceline/transport/collective/progress.h"
#include "paceline/transport/collective/testing/local_group.h"

namespace paceline::collective {
namespace {

using testing::Death;
using testing::LocalGroup;

constexpr std::int64_t kFaultElements = 150;
constexpr std::int64_t kChunk = 16;

std::vector<std::vector<float>> some_inputs(int members) {
  Rng rng(11);
  std::vector<std::vector<float>> inputs(static_cast<std::size_t>(members),
                                         std::vector<float>(static_cast<std::size_t>(kFaultElements)));
  for (auto& input : inputs) {
    for (float& value : input) value = static_cast<float>(rng.normal());
  }
  return inputs;
}

// Every member must hold the sum over the members when an attempt counts.
void expect_sum_of_members(const LocalGroup& group, const std::vector<std::vector<float>>& inputs) {
  for (int rank = 0; rank < group.plan().ranks; ++rank) {
    const Range range =
        group.plan().phases == Phases::kAllReduce ? Range{0, kFaultElements} : slice(group.plan(), rank);
    for (std::int64_t i = range.begin; i < range.end; ++i) {
      double want = 0;
      for (const int member : group.members())
        want += static_cast<double>(LocalGroup::weight(member)) *
                inputs[static_cast<std::size_t>(member)][static_cast<std::size_t>(i)];
      ASSERT_NEAR(group.accumulator(group.members()[static_cast<std::size_t>(rank)])[i], want, 1e-4);
    }
  }
}

class AMemberDies : public ::testing::TestWithParam<std::tuple<Algorithm, Phases>> {};

TEST_P(AMemberDies, AtAnyStepAndTheSurvivorsHaveTheirSum) {
  const auto [algorithm, phases] = GetParam();
  for (int ranks = 2; ranks <= 5; ++ranks) {
    const auto inputs = some_inputs(ranks);
    const Plan plan{algorithm, phases, ranks, kFaultElements, kChunk};
    for (int victim = 0; victim < ranks; ++victim) {
      const auto steps = static_cast<std::int64_t>(steps_of(plan, victim).size());
      for (std::int64_t step = 0; step <= steps; ++step) {
        for (std::uint64_t seed = 0; seed < 4; ++seed) {
          SCOPED_TRACE(fmt::format("{} ranks, {} dies after {} of {}", ranks, victim, step, steps));
          LocalGroup group(inputs, ranks, kFaultElements, seed);
          const bool first = group.attempt(algorithm, phases, kChunk, Death{victim, step});
          // The others may have begun again before the victim came so far.
          if (first) {
            EXPECT_EQ(step, steps) << "an attempt counts that one of its members never finished";
          } else {
            ASSERT_TRUE(group.attempt(algorithm, phases, kChunk));
            EXPECT_EQ(group.plan().ranks, group.alive(victim) ? ranks : ranks - 1);
          }
          expect_sum_of_members(group, inputs);
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, AMemberDies,
                         ::testing::Combine(::testing::Values(Algorithm::kRing, Algorithm::kSharedMemory),
                                            ::testing::Values(Phases::kReduceScatter, Phases::kAllReduce)));

TEST(OneAfterTheOther, AllButOneDie) {
  const auto inputs = some_inputs(6);
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    LocalGroup group(inputs, 6, kFaultElements, seed);
    for (int victim = 5; victim > 0; --victim) {
      EXPECT_FALSE(group.attempt(Algorithm::kRing, Phases::kAllReduce, kChunk, Death{victim, victim + 1}));
    }
    ASSERT_TRUE(group.attempt(Algorithm::kRing, Phases::kAllReduce, kChunk));
    EXPECT_EQ(group.members(), std::vector<int>{0});
    expect_sum_of_members(group, inputs);
  }
}

TEST(Progress, IsZeroFromAnEarlierAttemptAndNothingFromALaterOne) {
  const std::uint64_t word = progress_word(7, kMostSteps);
  EXPECT_EQ(steps_in(word, 7), kMostSteps);
  EXPECT_EQ(steps_in(word, 8), 0);
  EXPECT_EQ(steps_in(word, 6), std::nullopt);
  EXPECT_EQ(steps_in(0, 1), 0);
}

}  // namespace
}  // namespace paceline::collective
