// A shard through its commits: each version once and in order, the same bytes whatever the number of threads,
// and published weights that hold still while somebody has them.
#include "paceline/parameters/ps/shard.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>
#include <mutex>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/base/rng.h"
#include "paceline/parameters/ps/look_ahead.h"
#include "paceline/parameters/ps/testing/every_optimizer.h"

namespace paceline::ps {
namespace {

using ::testing::ElementsAreArray;

// Two parameters with a statistic between them, and one behind: 5000 + 40 + 700 + 3 floats and padding.
const Layout& shard_layout() {
  static const Layout layout = [] {
    Layout made;
    made.add("weight", TensorKind::kParameter, {50, 100});
    made.add("mean", TensorKind::kStatistic, {40});
    made.add("bias", TensorKind::kParameter, {700});
    made.add("variance", TensorKind::kStatistic, {3});
    return made;
  }();
  return layout;
}

constexpr OptimizerConfig kSgd{.kind = OptimizerKind::kSgd, .momentum = 0.9, .weight_decay = 1e-3};
constexpr OptimizerConfig kAdamW{.kind = OptimizerKind::kAdamW, .weight_decay = 1e-2};
constexpr OptimizerConfig kLars{.kind = OptimizerKind::kLars, .weight_decay = 1e-3, .trust = 0.1};
constexpr OptimizerConfig kLamb{.kind = OptimizerKind::kLamb, .epsilon = 1e-6, .weight_decay = 1e-2};
constexpr OptimizerConfig kAdafactor{.kind = OptimizerKind::kAdafactor, .epsilon = 1e-3};
const std::vector<OptimizerConfig> kOptimizers = testing::every_optimizer();
const std::vector<OptimizerConfig> kWithDirection = testing::optimizers_with_direction();

std::vector<float> random_floats(std::uint64_t seed) {
  Rng rng(seed);
  std::vector<float> values(static_cast<std::size_t>(shard_layout().size()));
  for (float& value : values) value = static_cast<float>(rng.normal());
  return values;
}

Shard shard_of(const OptimizerConfig& optimizer, int threads = 1, bool look_ahead = false) {
  const std::int64_t floats = Shard::board_floats(shard_layout(), look_ahead);
  return Shard(shard_layout(), optimizer, memory::WeightWriter::create(floats, 1, 1).value(), threads);
}

// Gradients for one commit, owned.
struct Commit {
  std::vector<std::vector<float>> gradients;
  Update update;

  Commit(int version, int members) {
    update.version = Version(version);
    update.learning_rate = 0.1;
    update.fraction = 0.5;
    for (int i = 0; i < members; ++i) {
      gradients.push_back(
          random_floats(mix_seed({static_cast<std::uint64_t>(version), static_cast<std::uint64_t>(i)})));
    }
    for (const auto& gradient : gradients)
      update.members.push_back({gradient.data(), 0.5 / members, 1.0 / members});
  }
};

std::vector<float> copy_of(std::span<const float> floats) { return {floats.begin(), floats.end()}; }
std::vector<float> latest(const Shard& shard) { return copy_of(shard.weights()); }

TEST(Shard, StartsWithTheWeightsItIsGiven) {
  Shard shard = shard_of(kSgd);
  const std::vector<float> start = random_floats(1);
  EXPECT_TRUE(shard.start(Version(12), start).ok());
  EXPECT_EQ(shard.version(), Version(12));
  EXPECT_EQ(latest(shard), start);
}

TEST(Shard, AppliesEachVersionOnceAndInOrder) {
  Shard shard = shard_of(kSgd);
  EXPECT_TRUE(shard.start(Version(0), random_floats(1)).ok());
  for (int version = 1; version <= 6; ++version) {
    ASSERT_TRUE(shard.apply(Commit(version, 3).update).ok());
    EXPECT_EQ(shard.version(), Version(version));
  }
}

TEST(Shard, ACommitThatCameBeforeChangesNothing) {
  Shard shard = shard_of(kAdamW);
  EXPECT_TRUE(shard.start(Version(0), random_floats(1)).ok());
  for (int version = 1; version <= 3; ++version) ASSERT_TRUE(shard.apply(Commit(version, 2).update).ok());
  const std::vector<float> weights = latest(shard);
  const OptimizerState state = shard.optimizer_state();
  for (int version = 0; version <= 3; ++version) {
    Commit again(version, 5);
    ASSERT_TRUE(shard.apply(again.update).ok());
    EXPECT_EQ(shard.version(), Version(3));
    EXPECT_EQ(latest(shard), weights);
    EXPECT_EQ(shard.optimizer_state().streams, state.streams);
    EXPECT_EQ(shard.optimizer_state().fractions, state.fractions);
  }
}

TEST(Shard, ACommitWhoseFormerIsMissingIsRefused) {
  Shard shard = shard_of(kSgd);
  EXPECT_TRUE(shard.start(Version(4), random_floats(1)).ok());
  const std::vector<float> weights = latest(shard);
  EXPECT_EQ(shard.apply(Commit(6, 1).update).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(shard.version(), Version(4));
  EXPECT_EQ(latest(shard), weights);
  EXPECT_TRUE(shard.apply(Commit(5, 1).update).ok());
  EXPECT_TRUE(shard.apply(Commit(6, 1).update).ok());
}

TEST(Shard, WhatIsPreparedIsSeenByNobodyUntilItIsPublished) {
  for (const OptimizerConfig& optimizer : kOptimizers) {
    Shard shard = shard_of(optimizer, 2);
    Shard at_once = shard_of(optimizer);
    for (Shard* one : {&shard, &at_once}) EXPECT_TRUE(one->start(Version(0), random_floats(1)).ok());
    for (int version = 1; version < 4; ++version) {
      const Commit commit(version, 2);
      ASSERT_TRUE(shard.prepare(commit.update).ok());
      EXPECT_EQ(shard.version(), at_once.version());
      EXPECT_EQ(latest(shard), latest(at_once));
      EXPECT_EQ(shard.optimizer_state().streams, at_once.optimizer_state().streams);
      EXPECT_EQ(shard.optimizer_state().fractions, at_once.optimizer_state().fractions);
      ASSERT_TRUE(at_once.apply(commit.update).ok());
      shard.publish();
      EXPECT_EQ(shard.version(), Version(version));
      EXPECT_EQ(latest(shard), latest(at_once));
      EXPECT_EQ(shard.optimizer_state().streams, at_once.optimizer_state().streams);
      EXPECT_EQ(shard.optimizer_state().fractions, at_once.optimizer_state().fractions);
    }
  }
}

class WhatCannotBePrepared : public ::testing::TestWithParam<OptimizerConfig> {};
INSTANTIATE_TEST_SUITE_P(Optimizers, WhatCannotBePrepared, ::testing::Values(kAdamW, kLamb, kAdafactor));

TEST_P(WhatCannotBePrepared, LeavesTheShardAsItWas) {
  constexpr std::int64_t kBlock = 512;
  Shard shard = shard_of(GetParam(), 2);
  Shard undisturbed = shard_of(GetParam());
  for (Shard* one : {&shard, &undisturbed}) {
    EXPECT_TRUE(one->start(Version(0), random_floats(1)).ok());
    ASSERT_TRUE(one->apply(Commit(1, 1).update).ok());
  }
  const Commit commit(2, 2);
  Update broken = commit.update;
  broken.arrival_block = kBlock;
  broken.arrival = [](std::int64_t begin, std::int64_t) {
    return begin < 3 * kBlock ? absl::OkStatus() : absl::UnavailableError("the host is gone");
  };
  EXPECT_EQ(shard.prepare(broken).message(), "the host is gone");
  EXPECT_EQ(shard.version(), Version(1));
  EXPECT_EQ(latest(shard), latest(undisturbed));
  EXPECT_EQ(shard.optimizer_state().streams, undisturbed.optimizer_state().streams);
  EXPECT_EQ(shard.optimizer_state().fractions, undisturbed.optimizer_state().fractions);
  ASSERT_TRUE(shard.prepare(commit.update).ok());
  ASSERT_TRUE(undisturbed.apply(commit.update).ok());
  shard.publish();
  EXPECT_EQ(latest(shard), latest(undisturbed));
}

TEST(Shard, ParametersStepAndStatisticsAreAveragedByShare) {
  Shard shard = shard_of({.kind = OptimizerKind::kSgd, .momentum = 0.0});
  const std::vector<float> start = random_floats(1);
  EXPECT_TRUE(shard.start(Version(0), start).ok());
  Commit commit(1, 2);
  commit.update.fraction = 1.0;
  commit.update.members[0].weight = 0.125;  // a damped gradient
  commit.update.members[1].weight = 0.5;
  commit.update.members[0].share = 0.25;
  commit.update.members[1].share = 0.75;
  ASSERT_TRUE(shard.apply(commit.update).ok());
  const std::vector<float> weights = latest(shard);
  for (const TensorSpec& tensor : shard.layout().tensors()) {
    for (auto i = static_cast<std::size_t>(tensor.offset);
         i < static_cast<std::size_t>(tensor.offset + tensor.size); ++i) {
      const double a = commit.gradients[0][i];
      const double b = commit.gradients[1][i];
      const double expected = tensor.kind == TensorKind::kParameter ? start[i] - 0.1 * (0.125 * a + 0.5 * b)
                                                                    : 0.25 * a + 0.75 * b;
      ASSERT_NEAR(weights[i], expected, 1e-6) << tensor.name;
    }
  }
}

// Each member moves its own statistics a tenth of the way to what it saw, as batch-norm does.
TEST(Shard, StatisticsForgetAsMuchInARoundOfLoneCommitsAsInABulkCommit) {
  constexpr int kRound = 8;
  constexpr float kSeen = 3;
  Shard shard = shard_of({.kind = OptimizerKind::kSgd, .momentum = 0.0});
  const std::vector<float> start = random_floats(1);
  EXPECT_TRUE(shard.start(Version(0), start).ok());
  for (int version = 1; version <= kRound; ++version) {
    std::vector<float> values = latest(shard);
    for (float& value : values) value += 0.1f * (kSeen - value);
    Update update{.version = Version(version), .members = {{values.data(), 1, 1}}};
    update.fraction = 1.0 / kRound;
    ASSERT_TRUE(shard.apply(update).ok());
  }
  const std::vector<float> weights = latest(shard);
  for (const TensorSpec& tensor : shard.layout().tensors()) {
    if (tensor.kind == TensorKind::kParameter) continue;
    for (auto i = static_cast<std::size_t>(tensor.offset);
         i < static_cast<std::size_t>(tensor.offset + tensor.size); ++i) {
      ASSERT_NEAR(weights[i], start[i] + 0.1 * (kSeen - start[i]), 1e-6) << tensor.name;
    }
  }
}

TEST(Shard, AnyNumberOfThreadsGivesTheSameBytes) {
  for (const OptimizerConfig& optimizer : kOptimizers) {
    std::vector<float> expected;
    OptimizerState state;
    for (const int threads : {1, 2, 3, 4, 7}) {
      Shard shard = shard_of(optimizer, threads);
      EXPECT_TRUE(shard.start(Version(0), random_floats(1)).ok());
      for (int version = 1; version <= 5; ++version)
        ASSERT_TRUE(shard.apply(Commit(version, version).update).ok());
      if (threads == 1) {
        expected = latest(shard);
        state = shard.optimizer_state();
      }
      EXPECT_EQ(latest(shard), expected) << threads << " threads";
      EXPECT_EQ(shard.optimizer_state().streams, state.streams) << threads << " threads";
    }
  }
}

TEST(Shard, TellsOnceOfEachFloatThatMovesWhenItIsMade) {
  for (const OptimizerConfig& optimizer : kOptimizers) {
    const bool look_ahead = has_direction(optimizer.kind);
    Shard shard = shard_of(optimizer, 3, look_ahead);
    EXPECT_TRUE(shard.start(Version(0), random_floats(1)).ok());
    const std::vector<float> gradient = random_floats(2);
    std::mutex mutex;
    std::vector<int> told(static_cast<std::size_t>(Shard::board_floats(shard_layout(), look_ahead)));
    std::vector<float> seen(told.size());
    Update update{.version = Version(1), .members = {{gradient.data(), 1, 1}}, .learning_rate = 0.1};
    update.made = [&](std::span<const float> buffer, std::int64_t begin, std::int64_t end) {
      const std::lock_guard lock(mutex);
      for (std::int64_t i = begin; i < end; ++i) {
        ++told[static_cast<std::size_t>(i)];
        seen[static_cast<std::size_t>(i)] = buffer[static_cast<std::size_t>(i)];
      }
    };
    ASSERT_TRUE(shard.apply(update).ok());
    EXPECT_EQ(told, std::vector<int>(told.size(), 1)) << static_cast<int>(optimizer.kind);
    EXPECT_THAT(seen, ElementsAreArray(shard.board().latest())) << static_cast<int>(optimizer.kind);
  }
}

TEST(Shard, AKeptVersionHoldsStillWhileLaterOnesAreApplied) {
  Shard shard = shard_of(kSgd, 2);
  EXPECT_TRUE(shard.start(Version(0), random_floats(1)).ok());
  ASSERT_TRUE(shard.apply(Commit(1, 2).update).ok());
  const std::vector<float> weights = latest(shard);
  ASSERT_TRUE(shard.board().keep(Version(1)).ok());
  for (int version = 2; version <= 8; ++version) {
    ASSERT_TRUE(shard.apply(Commit(version, 2).update).ok());
    ASSERT_THAT(shard.kept_weights(Version(1)), ElementsAreArray(weights)) << version;
    ASSERT_NE(latest(shard), weights);
  }
  shard.board().drop(Version(1));
  ASSERT_TRUE(shard.apply(Commit(9, 2).update).ok());
}

TEST(Shard, APinnedVersionHoldsStillWhileLaterOnesAreApplied) {
  Shard shard = shard_of(kSgd);
  EXPECT_TRUE(shard.start(Version(0), random_floats(1)).ok());
  auto reader = memory::WeightReader::open(shard.board().path(), shard_layout().size(), 0).value();
  const auto pinned = reader.pin(Version(0), std::chrono::nanoseconds(0));
  ASSERT_TRUE(pinned);
  for (int version = 1; version <= 6; ++version) ASSERT_TRUE(shard.apply(Commit(version, 1).update).ok());
  EXPECT_THAT(pinned->weights, ElementsAreArray(random_floats(1)));
}

TEST(Shard, GoesOnAfterARestartAsIfNothingHadBeen) {
  for (const OptimizerConfig& optimizer : kOptimizers) {
    Shard undisturbed = shard_of(optimizer);
    EXPECT_TRUE(undisturbed.start(Version(0), random_floats(1)).ok());
    for (int version = 1; version <= 3; ++version)
      ASSERT_TRUE(undisturbed.apply(Commit(version, 2).update).ok());
    Shard resumed = shard_of(optimizer);
    ASSERT_TRUE(resumed.restore_optimizer(undisturbed.optimizer_state()).ok());
    EXPECT_TRUE(resumed.start(Version(3), latest(undisturbed)).ok());
    for (int version = 4; version <= 6; ++version) {
      ASSERT_TRUE(undisturbed.apply(Commit(version, 2).update).ok());
      ASSERT_TRUE(resumed.apply(Commit(version, 2).update).ok());
    }
    EXPECT_EQ(latest(resumed), latest(undisturbed));
    EXPECT_EQ(resumed.optimizer_state().streams, undisturbed.optimizer_state().streams);
    EXPECT_EQ(resumed.optimizer_state().fractions, 3.0);
  }
}

TEST(Shard, AnotherOptimizersOrModelsStateIsRefused) {
  const auto size = static_cast<std::size_t>(shard_layout().size());
  Shard shard = shard_of(kAdamW);
  const auto refused = [&](std::vector<std::vector<float>> streams) {
    return shard.restore_optimizer({std::move(streams), 1.0}).code() == absl::StatusCode::kInvalidArgument;
  };
  EXPECT_TRUE(refused({}));
  EXPECT_TRUE(refused({std::vector<float>(size)})) << "SGD's";
  EXPECT_TRUE(refused({std::vector<float>(size), std::vector<float>(size - 1)}));
  EXPECT_TRUE(refused({std::vector<float>(size + 1), std::vector<float>(size)}));
  EXPECT_TRUE(refused({std::vector<float>(size), std::vector<float>(size), std::vector<float>(size)}));
  EXPECT_EQ(shard.optimizer_state().streams.size(), 2u);
  EXPECT_EQ(shard.optimizer_state().fractions, 0.0);
  EXPECT_TRUE(shard.restore_optimizer({{std::vector<float>(size), std::vector<float>(size)}, 1.0}).ok());
}

TEST(Shard, DifferencesMoveTheWeightsByTheirMeanWhateverTheOptimizer) {
  Shard shard = shard_of(kSgd);  // with momentum and decay
  EXPECT_TRUE(shard.start(Version(0), random_floats(1)).ok());
  for (int version = 1; version <= 3; ++version) {
    const std::vector<float> before = latest(shard);
    Commit commit(version, 2);
    commit.update.of_differences = true;
    commit.update.members[0].weight = commit.update.members[0].share = 0.25;
    commit.update.members[1].weight = commit.update.members[1].share = 0.75;
    ASSERT_TRUE(shard.apply(commit.update).ok());
    for (const TensorSpec& tensor : shard.layout().tensors()) {
      for (auto i = static_cast<std::size_t>(tensor.offset);
           i < static_cast<std::size_t>(tensor.offset + tensor.size); ++i) {
        const double mean = 0.25 * commit.gradients[0][i] + 0.75 * commit.gradients[1][i];
        const double expected = tensor.kind == TensorKind::kParameter ? before[i] - mean : mean;
        ASSERT_NEAR(shard.weights()[i], expected, 1e-5) << tensor.name;
      }
    }
  }
}

TEST(Shard, RefusesDifferencesUnderAnotherOptimizerThanSgd) {
  Shard shard = shard_of(kAdamW);
  EXPECT_TRUE(shard.start(Version(0), random_floats(1)).ok());
  Commit commit(1, 2);
  commit.update.of_differences = true;
  EXPECT_EQ(shard.apply(commit.update).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(shard.version(), Version(0));
}

// ---- Constants ----

// Constants at the start, between what moves, and at the end.
Layout with_constants() {
  Layout layout;
  layout.add("ids", TensorKind::kConstant, {25}, Dtype::kInt64);
  layout.add("weight", TensorKind::kParameter, {900});
  layout.add("frozen", TensorKind::kConstant, {300});
  layout.add("mean", TensorKind::kStatistic, {40});
  layout.add("bias", TensorKind::kParameter, {70});
  layout.add("mask", TensorKind::kConstant, {7}, Dtype::kBool);
  return layout;
}

// Bits that arithmetic would change: signalling NaNs, and integers that are denormal as floats.
std::vector<float> odd_start(const Layout& layout) {
  Rng rng(5);
  std::vector<float> values(static_cast<std::size_t>(layout.size()));
  for (const TensorSpec& tensor : layout.tensors()) {
    for (std::int64_t i = tensor.offset; i < tensor.offset + tensor.size; ++i) {
      float& value = values[static_cast<std::size_t>(i)];
      value = static_cast<float>(rng.normal());
      if (tensor.kind == TensorKind::kConstant)
        value = std::bit_cast<float>(i % 2 == 0 ? 0x7f800001u + static_cast<std::uint32_t>(i)
                                                : static_cast<std::uint32_t>(i));
    }
  }
  return values;
}

void expect_constants(const Layout& layout, std::span<const float> found, std::span<const float> expected) {
  for (const TensorSpec& tensor : layout.tensors()) {
    if (tensor.kind != TensorKind::kConstant) continue;
    EXPECT_EQ(std::memcmp(found.data() + tensor.offset, expected.data() + tensor.offset,
                          static_cast<std::size_t>(tensor.size) * sizeof(float)),
              0)
        << tensor.name;
  }
}

TEST(Shard, ConstantsAreTheSameBytesInEveryVersionAndBuffer) {
  const Layout layout = with_constants();
  const std::vector<float> start = odd_start(layout);
  const std::vector<float> gradient(start.size(), 3.0f);
  for (const bool look_ahead : {false, true}) {
    const std::int64_t floats = Shard::board_floats(layout, look_ahead);
    Shard shard(layout, kAdamW, memory::WeightWriter::create(floats, 3, 3).value(), 3);
    EXPECT_TRUE(shard.start(Version(4), start).ok());
    for (int version = 5; version < 16; ++version) {
      ASSERT_TRUE(shard.apply({Version(version), {{gradient.data(), 1, 1}}, 0.1}).ok());
      expect_constants(layout, shard.weights(), start);
      // So that every buffer is used.
      ASSERT_TRUE(version % 4 != 0 || shard.board().keep(Version(version)).ok());
    }
    for (const int kept : {8, 12}) expect_constants(layout, shard.kept_weights(Version(kept)), start);
    const OptimizerState state = shard.optimizer_state();
    for (const auto& stream : state.streams) {
      const std::vector<float> nothing(stream.size(), 0.0f);
      expect_constants(layout, stream, nothing);
    }
    if (look_ahead) expect_constants(layout, shard.direction(), std::vector<float>(start.size(), 0.0f));
  }
}

TEST(Shard, WhatMovesDoesNotKnowOfConstants) {
  const Layout layout = with_constants();
  Layout alone;
  for (const TensorSpec& tensor : layout.tensors()) {
    if (tensor.kind != TensorKind::kConstant) alone.add(tensor.name, tensor.kind, tensor.shape);
  }
  const std::vector<float> start = odd_start(layout);
  // The same floats in the memory without constants.
  const auto without = [&](std::span<const float> all) {
    std::vector<float> rest;
    for (const Layout::Range& range : layout.moving())
      rest.insert(rest.end(), all.begin() + range.begin, all.begin() + range.end);
    return rest;
  };
  for (const int threads : {1, 2, 3, 5}) {
    Shard shard(layout, kAdamW, memory::WeightWriter::create(layout.size(), 1, 0).value(), threads);
    Shard plain(alone, kAdamW, memory::WeightWriter::create(alone.size(), 1, 0).value(), 1);
    EXPECT_TRUE(shard.start(Version(0), start).ok());
    EXPECT_TRUE(plain.start(Version(0), without(start)).ok());
    for (int version = 1; version < 5; ++version) {
      Rng rng(static_cast<std::uint64_t>(version));
      std::vector<float> gradient(start.size());
      for (float& one : gradient) one = static_cast<float>(rng.normal());
      const std::vector<float> rest = without(gradient);
      ASSERT_TRUE(shard.apply({Version(version), {{gradient.data(), 1, 1}}, 0.1, 0.5}).ok());
      ASSERT_TRUE(plain.apply({Version(version), {{rest.data(), 1, 1}}, 0.1, 0.5}).ok());
      EXPECT_EQ(without(shard.weights()), latest(plain)) << threads << " threads";
    }
  }
}

// A buffer that has been used has them already: nobody writes them again.
TEST(Shard, NoCommitSpendsTimeOnConstants) {
  const Layout layout = with_constants();
  Shard shard(layout, kSgd, memory::WeightWriter::create(layout.size(), 1, 0).value(), 1);
  EXPECT_TRUE(shard.start(Version(0), odd_start(layout)).ok());
  const std::vector<float> gradient(static_cast<std::size_t>(layout.size()), 3.0f);
  for (int version = 1; version < 8; ++version) {
    if (version > 3) shard.board().next()[0] = 17;  // which this commit takes
    ASSERT_TRUE(shard.apply({Version(version), {{gradient.data(), 1, 1}}, 0.1}).ok());
    EXPECT_EQ(shard.weights()[0] == 17.0f, version > 3) << version;
  }
}

TEST(Shard, WhatCannotBePreparedLeavesConstantsAsTheyWere) {
  const Layout layout = with_constants();
  const std::vector<float> start = odd_start(layout);
  const std::vector<float> gradient(start.size(), 3.0f);
  Shard shard(layout, kAdamW, memory::WeightWriter::create(layout.size(), 1, 0).value(), 2);
  EXPECT_TRUE(shard.start(Version(0), start).ok());
  Update update{Version(1), {{gradient.data(), 1, 1}}, 0.1};
  Update broken = update;
  broken.arrival_block = 64;
  std::mutex mutex;
  std::vector<std::int64_t> asked;
  broken.arrival = [&](std::int64_t begin, std::int64_t end) {
    const std::lock_guard lock(mutex);
    for (std::int64_t i = begin; i < end; ++i) asked.push_back(i);
    return absl::UnavailableError("the host is gone");
  };
  EXPECT_FALSE(shard.prepare(broken).ok());
  // The shard does not wait for the gradient of a constant.
  for (const Layout::Run& run : layout.runs()) {
    if (run.kind != TensorKind::kConstant) continue;
    EXPECT_TRUE(std::none_of(asked.begin(), asked.end(),
                             [&](std::int64_t at) { return run.begin <= at && at < run.end; }));
  }
  for (int version = 1; version < 5; ++version) {
    update.version = Version(version);
    ASSERT_TRUE(shard.prepare(update).ok());
    shard.publish();
    expect_constants(layout, shard.weights(), start);
  }
}

// ---- Clipped gradients ----

// Over all parameters of the model and nothing else.
double norm_of(const Commit& commit) {
  double squares = 0;
  for (const TensorSpec& tensor : shard_layout().tensors()) {
    if (tensor.kind != TensorKind::kParameter) continue;
    for (auto i = static_cast<std::size_t>(tensor.offset);
         i < static_cast<std::size_t>(tensor.offset + tensor.size); ++i) {
      double mean = 0;
      for (std::size_t m = 0; m < commit.gradients.size(); ++m)
        mean += commit.update.members[m].weight * double{commit.gradients[m][i]};
      squares += mean * mean;
    }
  }
  return std::sqrt(squares);
}

TEST(Shard, AGradientThatIsTooLongIsScaledDownToTheNormThatItMayHave) {
  for (const OptimizerConfig& optimizer : kOptimizers) {
    const Commit commit(1, 3);
    OptimizerConfig clipping = optimizer;
    clipping.clip = norm_of(commit) / 4;
    Shard clipped = shard_of(clipping, 2);
    Shard expected = shard_of(optimizer);
    for (Shard* one : {&clipped, &expected}) EXPECT_TRUE(one->start(Version(0), random_floats(1)).ok());
    ASSERT_TRUE(clipped.apply(commit.update).ok());
    Update scaled = commit.update;
    for (Update::Member& member : scaled.members) member.weight /= 4;
    ASSERT_TRUE(expected.apply(scaled).ok());
    for (std::size_t i = 0; i < expected.weights().size(); ++i)
      ASSERT_NEAR(clipped.weights()[i], expected.weights()[i], 1e-5) << i;
    for (std::size_t i = 0; i < expected.weights().size(); ++i)
      ASSERT_NEAR(clipped.optimizer_state().streams[0][i], expected.optimizer_state().streams[0][i], 1e-5);
  }
}

TEST(Shard, AGradientThatIsShortEnoughIsLeftAloneToTheLastBit) {
  const Commit commit(1, 3);
  OptimizerConfig clipping = kAdamW;
  clipping.clip = norm_of(commit) * 1.001;
  Shard clipped = shard_of(clipping, 2);
  Shard plain = shard_of(kAdamW);
  for (Shard* one : {&clipped, &plain}) EXPECT_TRUE(one->start(Version(0), random_floats(1)).ok());
  ASSERT_TRUE(clipped.apply(commit.update).ok());
  ASSERT_TRUE(plain.apply(commit.update).ok());
  EXPECT_EQ(latest(clipped), latest(plain));
}

TEST(Shard, ClippingGivesTheSameBytesWithAnyNumberOfThreadsAndGroups) {
  OptimizerConfig clipping = kSgd;
  clipping.clip = 0.1;
  std::vector<float> expected;
  for (const int threads : {1, 2, 3, 5}) {
    Shard shard = shard_of(clipping, threads);
    EXPECT_TRUE(shard.start(Version(0), random_floats(1)).ok());
    for (int version = 1; version <= 3; ++version) {
      ASSERT_TRUE(shard.prepare(Commit(version, 2).update).ok());
      shard.publish();
    }
    if (threads == 1) expected = latest(shard);
    EXPECT_EQ(latest(shard), expected) << threads;
  }
  EXPECT_NE(expected, random_floats(1));
}

// Gradients that come over links come in parts, whose size must not show in the norm.
TEST(Shard, FindsTheSameNormWhenGradientsComeInParts) {
  OptimizerConfig clipping = kSgd;
  clipping.clip = 0.1;
  const auto squares_with = [&](std::int64_t part) {
    Shard shard = shard_of(clipping, 2);
    EXPECT_TRUE(shard.start(Version(0), random_floats(1)).ok());
    const Commit commit(1, 2);
    Update update = commit.update;
    double squares = 0;
    update.squares_of_all = [&](double own) { return squares = own; };
    if (part > 0) {
      update.arrival_block = part;
      update.arrival = [](std::int64_t, std::int64_t) { return absl::OkStatus(); };
    }
    EXPECT_TRUE(shard.apply(update).ok());
    return squares;
  };
  for (const std::int64_t part : {16, 48, 1024, 5008}) EXPECT_EQ(squares_with(part), squares_with(0)) << part;
}

// Several servers of a host: each sees the whole gradient, and all come to the same norm.
TEST(Shard, ShardsThatSeeTheWholeGradientClipAsOneShardDoesToTheLastBit) {
  const Layout whole = shard_layout();
  OptimizerConfig clipping = kAdamW;
  clipping.clip = 0.1;
  const std::vector<float> start = random_floats(1);
  Shard one = shard_of(clipping);
  EXPECT_TRUE(one.start(Version(0), start).ok());
  for (int version = 1; version <= 3; ++version) ASSERT_TRUE(one.apply(Commit(version, 3).update).ok());
  for (const auto& parts : {whole.split(2), whole.split(3), whole.split_evenly(4)}) {
    std::int64_t offset = 0;
    for (const Layout& part : parts) {
      const auto size = static_cast<std::size_t>(part.size());
      Shard shard(part, clipping, memory::WeightWriter::create(part.size(), 1, 0).value(), 2, {},
                  WholeModel{whole, offset});
      EXPECT_TRUE(
          shard.start(Version(0), std::span(start).subspan(static_cast<std::size_t>(offset), size)).ok());
      for (int version = 1; version <= 3; ++version) {
        const Commit commit(version, 3);
        Update update = commit.update;
        for (Update::Member& member : update.members) member.gradient += offset;
        ASSERT_TRUE(shard.apply(update).ok());
      }
      EXPECT_THAT(shard.weights(),
                  ElementsAreArray(one.weights().subspan(static_cast<std::size_t>(offset), size)));
      offset += part.size();
    }
  }
}

TEST(Shard, AGradientWhoseNormIsNoNumberIsNotClippedButNoticed) {
  OptimizerConfig clipping = kSgd;
  clipping.clip = 0.1;
  for (const float bad : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    Shard shard = shard_of(clipping);
    EXPECT_TRUE(shard.start(Version(0), random_floats(1)).ok());
    Commit commit(1, 2);
    commit.gradients[0][100] = bad;
    ASSERT_TRUE(shard.apply(commit.update).ok());
    EXPECT_FALSE(shard.finite());
    EXPECT_TRUE(std::isfinite(shard.weights()[101]));
    EXPECT_FALSE(std::isfinite(shard.weights()[100]));
  }
}

TEST(Shard, WhatDoesNotArriveIsNotClipped) {
  OptimizerConfig clipping = kAdamW;
  clipping.clip = 0.1;
  Shard shard = shard_of(clipping, 2);
  EXPECT_TRUE(shard.start(Version(0), random_floats(1)).ok());
  const Commit commit(1, 2);
  Update broken = commit.update;
  broken.arrival_block = 512;
  broken.arrival = [](std::int64_t begin, std::int64_t) {
    return begin < 1024 ? absl::OkStatus() : absl::UnavailableError("the host is gone");
  };
  EXPECT_EQ(shard.prepare(broken).message(), "the host is gone");
  EXPECT_EQ(shard.optimizer_state().fractions, 0.0);
  ASSERT_TRUE(shard.prepare(commit.update).ok());
  shard.publish();
  EXPECT_EQ(shard.version(), Version(1));
}

// ---- Finite numbers ----

TEST(Shard, KnowsWhetherItsNewestVersionIsFinite) {
  for (const OptimizerConfig& optimizer : kOptimizers) {
    for (const TensorSpec& tensor : shard_layout().tensors()) {
      for (const std::int64_t at : {tensor.offset, tensor.offset + tensor.size - 1}) {
        Shard shard = shard_of(optimizer, 3);
        EXPECT_TRUE(shard.start(Version(0), random_floats(1)).ok());
        EXPECT_TRUE(shard.finite());
        ASSERT_TRUE(shard.apply(Commit(1, 2).update).ok());
        EXPECT_TRUE(shard.finite());
        Commit bad(2, 2);
        bad.gradients[1][static_cast<std::size_t>(at)] = std::numeric_limits<float>::quiet_NaN();
        ASSERT_TRUE(shard.apply(bad.update).ok());
        EXPECT_FALSE(shard.finite()) << tensor.name;
      }
    }
  }
}

TEST(Shard, PublishesNoVersionThatIsNotFiniteWhereThatIsAsked) {
  Shard shard = shard_of(kAdamW, 2);
  EXPECT_TRUE(shard.start(Version(0), random_floats(1)).ok());
  Commit good(1, 2);
  good.update.only_finite = true;
  ASSERT_TRUE(shard.apply(good.update).ok());
  const std::vector<float> weights = latest(shard);
  Commit bad(2, 2);
  bad.update.only_finite = true;
  bad.gradients[0][17] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(absl::IsOutOfRange(shard.apply(bad.update)));
  EXPECT_FALSE(shard.finite());
  EXPECT_EQ(shard.version(), Version(1));
  EXPECT_EQ(latest(shard), weights);
}

TEST(Shard, ConstantsNeedNotBeFinite) {
  const Layout layout = with_constants();
  const std::vector<float> start = odd_start(layout);
  Shard shard(layout, kSgd, memory::WeightWriter::create(layout.size(), 1, 0).value(), 2);
  EXPECT_TRUE(shard.start(Version(0), start).ok());
  EXPECT_TRUE(shard.finite());
  std::vector<float> gradient(start.size(), 1.0f);
  for (const TensorSpec& tensor : layout.tensors()) {
    if (tensor.kind == TensorKind::kConstant)
      std::fill_n(gradient.begin() + tensor.offset, tensor.size, std::numeric_limits<float>::infinity());
  }
  ASSERT_TRUE(shard.apply({Version(1), {{gradient.data(), 1, 1}}, 0.1}).ok());
  EXPECT_TRUE(shard.finite());
}

TEST(Shard, SaysOfWhatIsPreparedWhetherItIsFinite) {
  Shard shard = shard_of(kAdamW, 2);
  EXPECT_TRUE(shard.start(Version(0), random_floats(1)).ok());
  Commit bad(1, 1);
  bad.gradients[0][17] = std::numeric_limits<float>::infinity();
  Update broken = bad.update;
  broken.arrival_block = 512;
  broken.arrival = [](std::int64_t begin, std::int64_t) {
    return begin < 1024 ? absl::OkStatus() : absl::UnavailableError("the host is gone");
  };
  EXPECT_FALSE(shard.prepare(broken).ok());
  EXPECT_TRUE(shard.finite()) << "what was taken back";
  ASSERT_TRUE(shard.prepare(bad.update).ok());
  EXPECT_FALSE(shard.finite());
  shard.publish();
  EXPECT_FALSE(shard.finite());
  Shard resumed = shard_of(kAdamW);
  EXPECT_TRUE(resumed.start(Version(1), latest(shard)).ok());
  EXPECT_FALSE(resumed.finite());
}

// ---- Groups of tensors ----

const std::vector<ParameterGroup> kGroups{
    {.tensors = {"bias"}, .rate = 0.25, .momentum = 0.5, .beta1 = 0.7, .weight_decay = 0.0},
    {.match = "we*", .rate = 3, .beta2 = 0.9, .epsilon = 1e-3}};

// Each tensor steps as it would in a model where the optimizer has its group's numbers.
TEST(Shard, EachGroupStepsWithItsOwnNumbers) {
  for (const OptimizerConfig& optimizer : kOptimizers) {
    const std::vector<float> start = random_floats(1);
    const auto shard_with = [&](const OptimizerConfig& config, std::span<const ParameterGroup> groups) {
      Shard shard(shard_layout(), config, memory::WeightWriter::create(shard_layout().size(), 1, 1).value(),
                  2, groups);
      EXPECT_TRUE(shard.start(Version(0), start).ok());
      for (int version = 1; version <= 4; ++version) EXPECT_TRUE(shard.apply(Commit(version, 2).update).ok());
      return latest(shard);
    };
    const std::vector<float> found = shard_with(optimizer, kGroups);
    const std::vector<float> plain = shard_with(optimizer, {});
    const auto same = [&](const TensorSpec& tensor, const std::vector<float>& expected) {
      return std::equal(found.begin() + tensor.offset, found.begin() + tensor.offset + tensor.size,
                        expected.begin() + tensor.offset);
    };
    for (const TensorSpec& tensor : shard_layout().tensors()) {
      if (tensor.kind == TensorKind::kStatistic) {
        EXPECT_TRUE(same(tensor, plain)) << tensor.name;
        continue;
      }
      const ParameterGroup& group = kGroups[tensor.name == "bias" ? 0 : 1];
      EXPECT_TRUE(same(tensor, shard_with(optimizer_of(optimizer, group), {}))) << tensor.name;
      EXPECT_FALSE(same(tensor, plain)) << tensor.name;
    }
  }
}

TEST(Shard, GroupsAreTheSameHoweverTheModelIsCut) {
  const Layout whole = shard_layout();
  const std::vector<float> start = random_floats(1);
  Shard one(whole, kAdamW, memory::WeightWriter::create(whole.size(), 1, 1).value(), 3, kGroups);
  EXPECT_TRUE(one.start(Version(0), start).ok());
  const Commit commit(1, 3);
  ASSERT_TRUE(one.apply(commit.update).ok());
  for (int count = 2; count <= 5; ++count) {
    std::int64_t offset = 0;
    for (const Layout& part : whole.split_evenly(count)) {
      const auto size = static_cast<std::size_t>(part.size());
      Shard shard(part, kAdamW, memory::WeightWriter::create(part.size(), 1, 0).value(), 1, kGroups);
      EXPECT_TRUE(
          shard.start(Version(0), std::span(start).subspan(static_cast<std::size_t>(offset), size)).ok());
      Update update = commit.update;
      for (Update::Member& member : update.members) member.gradient += offset;
      ASSERT_TRUE(shard.apply(update).ok());
      EXPECT_THAT(shard.weights(),
                  ElementsAreArray(one.weights().subspan(static_cast<std::size_t>(offset), size)));
      offset += part.size();
    }
  }
}

// A replica looks as far ahead as the optimizer says; a group that goes a third as fast is a third as far.
TEST(Shard, TheDirectionOfAGroupIsInTheOptimizersMeasure) {
  const std::vector<ParameterGroup> groups{{.tensors = {"bias"}, .rate = 1.0 / 3},
                                           {.tensors = {"weight"}, .momentum = 0.0}};
  const OptimizerConfig optimizer{.kind = OptimizerKind::kSgd, .momentum = 0.9};
  Shard shard(shard_layout(), optimizer,
              memory::WeightWriter::create(Shard::board_floats(shard_layout(), true), 1, 1).value(), 2,
              groups);
  EXPECT_TRUE(shard.start(Version(0), random_floats(1)).ok());
  ASSERT_TRUE(shard.apply(Commit(1, 2).update).ok());
  const std::vector<float> velocity = shard.optimizer_state().streams[0];
  for (const TensorSpec& tensor : shard_layout().tensors()) {
    const float scale = tensor.name == "bias" ? 1.0f / 3 : 0.0f;
    for (auto i = static_cast<std::size_t>(tensor.offset);
         i < static_cast<std::size_t>(tensor.offset + tensor.size); ++i)
      ASSERT_FLOAT_EQ(shard.direction()[i], scale * velocity[i]) << tensor.name;
  }
}

// ---- Where replicas look ahead ----

TEST(Shard, LooksAheadWithTheSameWeights) {
  for (const OptimizerConfig& optimizer : kWithDirection) {
    Shard plain = shard_of(optimizer);
    Shard ahead = shard_of(optimizer, 1, true);
    EXPECT_TRUE(plain.start(Version(0), random_floats(1)).ok());
    EXPECT_TRUE(ahead.start(Version(0), random_floats(1)).ok());
    for (int version = 1; version <= 4; ++version) {
      ASSERT_TRUE(plain.apply(Commit(version, 2).update).ok());
      ASSERT_TRUE(ahead.apply(Commit(version, 2).update).ok());
      EXPECT_EQ(latest(ahead), latest(plain));
      EXPECT_EQ(ahead.optimizer_state().streams, plain.optimizer_state().streams);
    }
    EXPECT_TRUE(plain.direction().empty());
    EXPECT_EQ(ahead.direction().size(), ahead.weights().size());
  }
}

// The last update went by −rate · direction, apart from what AdamW shrinks.
TEST(Shard, TheDirectionIsWhereItsUpdateWentAndNowhereForStatistics) {
  for (OptimizerConfig optimizer : {kSgd, kAdamW}) {
    optimizer.weight_decay = 0;
    Shard shard = shard_of(optimizer, 3, true);
    EXPECT_TRUE(shard.start(Version(0), random_floats(1)).ok());
    EXPECT_EQ(copy_of(shard.direction()), std::vector<float>(shard.weights().size(), 0.0f));
    for (int version = 1; version <= 6; ++version) {
      const std::vector<float> before = latest(shard);
      const Commit commit(version, 2);
      ASSERT_TRUE(shard.apply(commit.update).ok());
      const double rate = commit.update.learning_rate * commit.update.fraction;
      for (const TensorSpec& tensor : shard.layout().tensors()) {
        const bool steps = tensor.kind == TensorKind::kParameter;
        for (auto i = static_cast<std::size_t>(tensor.offset);
             i < static_cast<std::size_t>(tensor.offset + tensor.size); ++i) {
          const double went = steps ? (before[i] - shard.weights()[i]) / rate : 0;
          ASSERT_NEAR(shard.direction()[i], went, steps ? 1e-4 : 0) << tensor.name << " of " << version;
        }
      }
    }
  }
}

TEST(Shard, AnyNumberOfThreadsGivesTheSameDirection) {
  for (const OptimizerConfig& optimizer : kWithDirection) {
    std::vector<float> expected;
    for (const int threads : {1, 2, 3, 4, 7}) {
      Shard shard = shard_of(optimizer, threads, true);
      EXPECT_TRUE(shard.start(Version(0), random_floats(1)).ok());
      for (int version = 1; version <= 5; ++version)
        ASSERT_TRUE(shard.apply(Commit(version, version).update).ok());
      if (threads == 1) expected = copy_of(shard.direction());
      EXPECT_EQ(copy_of(shard.direction()), expected) << threads << " threads";
    }
  }
}

TEST(Shard, HasItsDirectionAgainAfterARestart) {
  for (const OptimizerConfig& optimizer : kWithDirection) {
    Shard undisturbed = shard_of(optimizer, 1, true);
    EXPECT_TRUE(undisturbed.start(Version(0), random_floats(1)).ok());
    for (int version = 1; version <= 3; ++version)
      ASSERT_TRUE(undisturbed.apply(Commit(version, 2).update).ok());
    Shard resumed = shard_of(optimizer, 1, true);
    ASSERT_TRUE(resumed.restore_optimizer(undisturbed.optimizer_state()).ok());
    EXPECT_TRUE(resumed.start(Version(3), latest(undisturbed)).ok());
    EXPECT_EQ(copy_of(resumed.direction()), copy_of(undisturbed.direction()));
    EXPECT_NE(copy_of(resumed.direction()), std::vector<float>(resumed.weights().size(), 0.0f));
  }
}

TEST(Shard, AKeptVersionIsItsWeightsAlone) {
  Shard shard = shard_of(kSgd, 1, true);
  EXPECT_TRUE(shard.start(Version(0), random_floats(1)).ok());
  ASSERT_TRUE(shard.board().keep(Version(0)).ok());
  ASSERT_TRUE(shard.apply(Commit(1, 1).update).ok());
  EXPECT_EQ(copy_of(shard.kept_weights(Version(0))), random_floats(1));
}

// Tensors may go to any shard as long as none is cut.
TEST(Shard, WholeTensorsGiveTheBytesOfTheWholeModelWhereverTheyLie) {
  const Layout whole = shard_layout();
  const std::vector<float> start = random_floats(1);
  for (const OptimizerConfig& optimizer : {kLars, kLamb, kAdafactor}) {
    Shard one = shard_of(optimizer);
    EXPECT_TRUE(one.start(Version(0), start).ok());
    const Commit commit(1, 3);
    ASSERT_TRUE(one.apply(commit.update).ok());
    std::int64_t offset = 0;
    for (const Layout& part : whole.split(3)) {
      const auto size = static_cast<std::size_t>(part.size());
      Shard shard(part, optimizer, memory::WeightWriter::create(part.size(), 1, 0).value(), 1);
      EXPECT_TRUE(
          shard.start(Version(0), std::span(start).subspan(static_cast<std::size_t>(offset), size)).ok());
      Update update = commit.update;
      for (Update::Member& member : update.members) member.gradient += offset;
      ASSERT_TRUE(shard.apply(update).ok());
      EXPECT_THAT(shard.weights(),
                  ElementsAreArray(one.weights().subspan(static_cast<std::size_t>(offset), size)));
      offset += part.size();
    }
    EXPECT_EQ(offset, whole.size());
  }
}

// One update of the bulk, cut into pieces: the sum of the shards is the whole, to the last bit.
TEST(Shard, ShardsOfASplitLayoutGiveTheBytesOfTheWhole) {
  const Layout whole = shard_layout();
  Shard one = shard_of(kAdamW);
  const std::vector<float> start = random_floats(1);
  EXPECT_TRUE(one.start(Version(0), start).ok());
  const Commit commit(1, 3);
  ASSERT_TRUE(one.apply(commit.update).ok());
  const std::vector<float> expected = latest(one);
  const auto check = [&](const std::vector<Layout>& parts) {
    std::int64_t offset = 0;
    for (const Layout& part : parts) {
      const auto of_part = [&](const std::vector<float>& all) {
        return std::span(all).subspan(static_cast<std::size_t>(offset),
                                      static_cast<std::size_t>(part.size()));
      };
      Shard shard(part, kAdamW, memory::WeightWriter::create(part.size(), 1, 0).value(), 1);
      EXPECT_TRUE(shard.start(Version(0), of_part(start)).ok());
      Update update = commit.update;
      for (Update::Member& member : update.members) member.gradient += offset;
      ASSERT_TRUE(shard.apply(update).ok());
      EXPECT_THAT(shard.weights(), ElementsAreArray(of_part(expected)));
      offset += part.size();
    }
    EXPECT_EQ(offset, whole.size());
  };
  check(whole.split(3));
  for (int count = 1; count <= 5; ++count) check(whole.split_evenly(count));
}

}  // namespace
}  // namespace paceline::ps
