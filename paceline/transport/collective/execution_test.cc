// Every schedule against sums in double precision, in random interleavings.
#include "paceline/transport/collective/execution.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "paceline/base/testing/effort.h"
#include "paceline/transport/collective/testing/local_group.h"
#include "paceline/transport/collective/weighted_sum.h"

namespace paceline::collective {
namespace {

using testing::LocalGroup;

constexpr int kMostRanks = 16;
constexpr std::int64_t kMostElements = 1'000'000;

// Inputs of sixteen members, and by k the weighted sums of the first k, in double precision.
struct Numbers {
  Numbers() {
    Rng rng(7);
    sums.emplace_back(kMostElements, 0.0);
    for (int member = 0; member < kMostRanks; ++member) {
      inputs.emplace_back(kMostElements);
      // A period of its own for each member is as good as that many random numbers, and faster.
      for (std::size_t i = 0; i < inputs.back().size(); ++i)
        inputs.back()[i] = i < 4096 ? static_cast<float>(rng.normal()) : inputs.back()[i - 4093];
      sums.push_back(sums.back());
      for (std::size_t i = 0; i < sums.back().size(); ++i)
        sums.back()[i] += static_cast<double>(LocalGroup::weight(member)) * inputs.back()[i];
    }
  }
  std::vector<std::vector<float>> inputs;
  std::vector<std::vector<double>> sums;
};

const Numbers& numbers() {
  static const Numbers made;
  return made;
}

void expect_sum(const float* got, const std::vector<double>& want, Range range, int ranks) {
  for (std::int64_t i = range.begin; i < range.end; ++i) {
    // The tolerance suits weights up to 8 and values around 1.
    ASSERT_NEAR(got[i], want[static_cast<std::size_t>(i)], 1e-5 * ranks * ranks) << "element " << i;
  }
}

class Conformance : public ::testing::TestWithParam<Algorithm> {};

TEST_P(Conformance, EveryMemberEndsWithTheSum) {
  for (int ranks = 1; ranks <= kMostRanks; ++ranks) {
    for (const std::int64_t elements : {std::int64_t{0}, std::int64_t{1}, std::int64_t{4}, std::int64_t{100},
                                        std::int64_t{1000}, std::int64_t{10'000}, kMostElements}) {
      if (effort::kSanitized && elements == kMostElements && ranks < kMostRanks) continue;
      SCOPED_TRACE(fmt::format("{} ranks, {} elements", ranks, elements));
      LocalGroup group(numbers().inputs, ranks, elements, static_cast<std::uint64_t>(ranks));
      ASSERT_TRUE(group.attempt(GetParam(), Phases::kAllReduce, elements > 10'000 ? 16'384 : 48));
      for (int member = 0; member < ranks; ++member)
        expect_sum(group.accumulator(member), numbers().sums[static_cast<std::size_t>(ranks)], {0, elements},
                   ranks);
    }
  }
}

TEST_P(Conformance, EveryMemberEndsWithItsSliceWhenNothingIsGathered) {
  for (int ranks = 1; ranks <= kMostRanks; ++ranks) {
    LocalGroup group(numbers().inputs, ranks, 1000, 3);
    ASSERT_TRUE(group.attempt(GetParam(), Phases::kReduceScatter, 32));
    for (int member = 0; member < ranks; ++member)
      expect_sum(group.accumulator(member), numbers().sums[static_cast<std::size_t>(ranks)],
                 slice(group.plan(), member), ranks);
  }
}

TEST_P(Conformance, SlicesAreGatheredWithoutAReduction) {
  LocalGroup group(numbers().inputs, 5, 1000, 3);
  ASSERT_TRUE(group.attempt(GetParam(), Phases::kReduceScatter, 32));
  ASSERT_TRUE(group.attempt(GetParam(), Phases::kAllGather, 64));
  for (int member = 0; member < 5; ++member)
    expect_sum(group.accumulator(member), numbers().sums[5], {0, 1000}, 5);
}

TEST_P(Conformance, AnyInterleavingGivesTheSameBits) {
  std::vector<float> first;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    LocalGroup group(numbers().inputs, 4, 500, seed);
    ASSERT_TRUE(group.attempt(GetParam(), Phases::kAllReduce, 32));
    for (int member = 0; member < 4; ++member) {
      const std::vector<float> sum(group.accumulator(member), group.accumulator(member) + 500);
      if (first.empty()) first = sum;
      ASSERT_EQ(sum, first) << "seed " << seed << ", member " << member;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Algorithms, Conformance,
                         ::testing::Values(Algorithm::kRing, Algorithm::kSharedMemory),
                         [](const auto& one) { return one.param == Algorithm::kRing ? "ring" : "memory"; });

// The sum has the order of the members, like in the servers' pass.
TEST(SharedMemorySum, HasTheBitsOfTheOrderedSum) {
  constexpr int kRanks = 7;
  constexpr std::int64_t kElements = 5000;
  std::vector<float> ordered(kElements);
  product(ordered.data(), numbers().inputs[0].data(), LocalGroup::weight(0), kElements);
  for (int member = 1; member < kRanks; ++member)
    accumulate(ordered.data(), numbers().inputs[static_cast<std::size_t>(member)].data(),
               LocalGroup::weight(member), kElements);
  LocalGroup group(numbers().inputs, kRanks, kElements, 5);
  ASSERT_TRUE(group.attempt(Algorithm::kSharedMemory, Phases::kAllReduce, 64));
  for (int member = 0; member < kRanks; ++member)
    EXPECT_EQ(std::vector<float>(group.accumulator(member), group.accumulator(member) + kElements), ordered);
}

// A consumer can take chunk c as soon as its owner has come so far.
TEST(Chunks, AreReadyBeforeTheWholeSum) {
  for (const Algorithm algorithm : {Algorithm::kRing, Algorithm::kSharedMemory}) {
    for (int ranks = 1; ranks <= 5; ++ranks) {
      const Plan plan{.algorithm = algorithm, .ranks = ranks, .elements = 1000, .chunk = 16};
      for (int rank = 0; rank < ranks; ++rank) {
        for (std::int64_t c = 0; c < chunks(plan, rank); ++c) {
          LocalGroup group(numbers().inputs, ranks, 1000, 1);
          group.attempt(algorithm, Phases::kReduceScatter, plan.chunk,
                        testing::Death{rank, steps_until_sum(plan, rank, c)});
          expect_sum(group.accumulator(rank), numbers().sums[static_cast<std::size_t>(ranks)],
                     chunk(plan, rank, c), ranks);
        }
      }
    }
  }
}

TEST(Execution, SaysWhatItWaitsFor) {
  class Nobody final : public Fabric {
   public:
    std::optional<std::int64_t> finished(int) override { return progress; }
    const float* read(int, Source, Range) override { return memory; }
    float* write(Range range) override { return own + range.begin; }
    void publish(std::int64_t finished) override { published = finished; }
    std::optional<std::int64_t> progress = 0;
    std::int64_t published = 0;
    float memory[64] = {};
    float own[64] = {};
  } fabric;
  const Plan plan{
      .algorithm = Algorithm::kRing, .phases = Phases::kAllReduce, .ranks = 2, .elements = 32, .chunk = 16};
  Execution execution(plan, 0, {1, 1}, fabric);
  EXPECT_EQ(execution.advance(1).state, Standing::kStopped);
  EXPECT_EQ(fabric.published, 1);
  const Standing blocked = execution.advance();
  EXPECT_EQ(blocked.state, Standing::kBlocked);
  EXPECT_EQ(blocked.peer, 1);
  EXPECT_EQ(blocked.needs, 2);
  EXPECT_EQ(fabric.published, 2);
  fabric.progress = std::nullopt;
  EXPECT_EQ(execution.advance().state, Standing::kPeerGone);
  fabric.progress = 2;
  EXPECT_EQ(execution.advance().state, Standing::kPeerGone) << "it has ended";
  EXPECT_EQ(fabric.published, 2);
}

}  // namespace
}  // namespace paceline::collective
