// A shard through its commits: each version once and in order, the same bytes whatever the number of threads,
// and published weights that hold still while somebody has them.
#include "paceline/ps/shard.h"

#include <algorithm>
#include <chrono>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/base/rng.h"

namespace paceline::ps {
namespace {

using ::testing::ElementsAreArray;

// Two parameters with a statistic between them, and one behind: 5000 + 40 + 700 + 3 floats and padding.
Layout shard_layout() {
  Layout layout;
  layout.add("weight", TensorKind::kParameter, {50, 100});
  layout.add("mean", TensorKind::kStatistic, {40});
  layout.add("bias", TensorKind::kParameter, {700});
  layout.add("variance", TensorKind::kStatistic, {3});
  return layout;
}

constexpr OptimizerConfig kSgd{.kind = OptimizerKind::kSgd, .momentum = 0.9, .weight_decay = 1e-3};
constexpr OptimizerConfig kAdamW{.kind = OptimizerKind::kAdamW, .weight_decay = 1e-2};

std::vector<float> random_floats(std::uint64_t seed) {
  Rng rng(seed);
  std::vector<float> values(static_cast<std::size_t>(shard_layout().size()));
  for (float& value : values) value = static_cast<float>(rng.normal());
  return values;
}

Shard shard_of(const OptimizerConfig& optimizer, int threads = 1, bool look_ahead = false) {
  const std::int64_t floats = Shard::board_floats(shard_layout(), look_ahead);
  return Shard(shard_layout(), optimizer, transport::WeightWriter::create(floats, 1, 1).value(), threads);
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
  shard.start(Version(12), start);
  EXPECT_EQ(shard.version(), Version(12));
  EXPECT_EQ(latest(shard), start);
}

TEST(Shard, AppliesEachVersionOnceAndInOrder) {
  Shard shard = shard_of(kSgd);
  shard.start(Version(0), random_floats(1));
  for (int version = 1; version <= 6; ++version) {
    ASSERT_TRUE(shard.apply(Commit(version, 3).update).ok());
    EXPECT_EQ(shard.version(), Version(version));
  }
}

TEST(Shard, ACommitThatCameBeforeChangesNothing) {
  Shard shard = shard_of(kAdamW);
  shard.start(Version(0), random_floats(1));
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
  shard.start(Version(4), random_floats(1));
  const std::vector<float> weights = latest(shard);
  EXPECT_EQ(shard.apply(Commit(6, 1).update).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(shard.version(), Version(4));
  EXPECT_EQ(latest(shard), weights);
  EXPECT_TRUE(shard.apply(Commit(5, 1).update).ok());
  EXPECT_TRUE(shard.apply(Commit(6, 1).update).ok());
}

TEST(Shard, WhatIsPreparedIsSeenByNobodyUntilItIsPublished) {
  for (const OptimizerConfig& optimizer : {kSgd, kAdamW}) {
    Shard shard = shard_of(optimizer, 2);
    Shard at_once = shard_of(optimizer);
    for (Shard* one : {&shard, &at_once}) one->start(Version(0), random_floats(1));
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

TEST(Shard, WhatCannotBePreparedLeavesItAsItWas) {
  constexpr std::int64_t kBlock = 512;
  Shard shard = shard_of(kAdamW, 2);
  Shard undisturbed = shard_of(kAdamW);
  for (Shard* one : {&shard, &undisturbed}) {
    one->start(Version(0), random_floats(1));
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
  shard.start(Version(0), start);
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
  shard.start(Version(0), start);
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
  for (const OptimizerConfig& optimizer : {kSgd, kAdamW}) {
    std::vector<float> expected;
    OptimizerState state;
    for (const int threads : {1, 2, 3, 4, 7}) {
      Shard shard = shard_of(optimizer, threads);
      shard.start(Version(0), random_floats(1));
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

TEST(Shard, AKeptVersionHoldsStillWhileLaterOnesAreApplied) {
  Shard shard = shard_of(kSgd, 2);
  shard.start(Version(0), random_floats(1));
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
  shard.start(Version(0), random_floats(1));
  auto reader = transport::WeightReader::open(shard.board().path(), shard_layout().size(), 0).value();
  const auto pinned = reader.pin(Version(0), std::chrono::nanoseconds(0));
  ASSERT_TRUE(pinned);
  for (int version = 1; version <= 6; ++version) ASSERT_TRUE(shard.apply(Commit(version, 1).update).ok());
  EXPECT_THAT(pinned->weights, ElementsAreArray(random_floats(1)));
}

TEST(Shard, GoesOnAfterARestartAsIfNothingHadBeen) {
  for (const OptimizerConfig& optimizer : {kSgd, kAdamW}) {
    Shard undisturbed = shard_of(optimizer);
    undisturbed.start(Version(0), random_floats(1));
    for (int version = 1; version <= 3; ++version)
      ASSERT_TRUE(undisturbed.apply(Commit(version, 2).update).ok());
    Shard resumed = shard_of(optimizer);
    ASSERT_TRUE(resumed.restore_optimizer(undisturbed.optimizer_state()).ok());
    resumed.start(Version(3), latest(undisturbed));
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
  shard.start(Version(0), random_floats(1));
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
  shard.start(Version(0), random_floats(1));
  Commit commit(1, 2);
  commit.update.of_differences = true;
  EXPECT_EQ(shard.apply(commit.update).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(shard.version(), Version(0));
}

// ---- Where replicas look ahead ----

TEST(Shard, LooksAheadWithTheSameWeights) {
  for (const OptimizerConfig& optimizer : {kSgd, kAdamW}) {
    Shard plain = shard_of(optimizer);
    Shard ahead = shard_of(optimizer, 1, true);
    plain.start(Version(0), random_floats(1));
    ahead.start(Version(0), random_floats(1));
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
    shard.start(Version(0), random_floats(1));
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
  for (const OptimizerConfig& optimizer : {kSgd, kAdamW}) {
    std::vector<float> expected;
    for (const int threads : {1, 2, 3, 4, 7}) {
      Shard shard = shard_of(optimizer, threads, true);
      shard.start(Version(0), random_floats(1));
      for (int version = 1; version <= 5; ++version)
        ASSERT_TRUE(shard.apply(Commit(version, version).update).ok());
      if (threads == 1) expected = copy_of(shard.direction());
      EXPECT_EQ(copy_of(shard.direction()), expected) << threads << " threads";
    }
  }
}

TEST(Shard, HasItsDirectionAgainAfterARestart) {
  for (const OptimizerConfig& optimizer : {kSgd, kAdamW}) {
    Shard undisturbed = shard_of(optimizer, 1, true);
    undisturbed.start(Version(0), random_floats(1));
    for (int version = 1; version <= 3; ++version)
      ASSERT_TRUE(undisturbed.apply(Commit(version, 2).update).ok());
    Shard resumed = shard_of(optimizer, 1, true);
    ASSERT_TRUE(resumed.restore_optimizer(undisturbed.optimizer_state()).ok());
    resumed.start(Version(3), latest(undisturbed));
    EXPECT_EQ(copy_of(resumed.direction()), copy_of(undisturbed.direction()));
    EXPECT_NE(copy_of(resumed.direction()), std::vector<float>(resumed.weights().size(), 0.0f));
  }
}

TEST(Shard, AKeptVersionIsItsWeightsAlone) {
  Shard shard = shard_of(kSgd, 1, true);
  shard.start(Version(0), random_floats(1));
  ASSERT_TRUE(shard.board().keep(Version(0)).ok());
  ASSERT_TRUE(shard.apply(Commit(1, 1).update).ok());
  EXPECT_EQ(copy_of(shard.kept_weights(Version(0))), random_floats(1));
}

// One update of the bulk, cut into pieces: the sum of the shards is the whole, to the last bit.
TEST(Shard, ShardsOfASplitLayoutGiveTheBytesOfTheWhole) {
  const Layout whole = shard_layout();
  Shard one = shard_of(kAdamW);
  const std::vector<float> start = random_floats(1);
  one.start(Version(0), start);
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
      Shard shard(part, kAdamW, transport::WeightWriter::create(part.size(), 1, 0).value(), 1);
      shard.start(Version(0), of_part(start));
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
