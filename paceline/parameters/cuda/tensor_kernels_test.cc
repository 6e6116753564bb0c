// The kernels of LARS, LAMB and Adafactor against ps::Shard, to the bit. They run on a processor, one thread
// after the other.
#include <bit>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/base/rng.h"
#include "paceline/parameters/cuda/kernel_arguments.h"
#include "paceline/parameters/cuda/kernels.h"
#include "paceline/parameters/cuda/pieces.h"
#include "paceline/parameters/cuda/testing/kernel_setup.h"
#include "paceline/parameters/ps/look_ahead.h"
#include "paceline/parameters/ps/shard.h"

namespace paceline::cuda {
namespace {

using ps::OptimizerConfig;
using ps::OptimizerKind;
using ps::TensorKind;

constexpr OptimizerConfig kOptimizers[] = {
    {.kind = OptimizerKind::kLars, .weight_decay = 1e-3, .trust = 0.1},
    {.kind = OptimizerKind::kLamb, .epsilon = 1e-6, .weight_decay = 1e-2},
    {.kind = OptimizerKind::kAdafactor, .epsilon = 1e-3, .weight_decay = 1e-2},
};

// Matrices of more than one chunk of rows and of more than one group of blocks, small ones by the dozen, and
// tensors that are no matrices.
const ps::Layout& test_layout() {
  static const ps::Layout layout = [] {
    ps::Layout made;
    made.add("scalar", TensorKind::kParameter, {});
    made.add("long", TensorKind::kParameter, {601, 37});
    made.add("mean", TensorKind::kStatistic, {41});
    made.add("bias", TensorKind::kParameter, {4103});
    made.add("table", TensorKind::kConstant, {100});
    made.add("kernels", TensorKind::kParameter, {6, 5, 3, 3});
    made.add("column", TensorKind::kParameter, {9, 1});
    made.add("wide", TensorKind::kParameter, {67, 2003});
    made.add("row", TensorKind::kParameter, {1, 19});
    made.add("variance", TensorKind::kStatistic, {5});
    return made;
  }();
  return layout;
}

std::vector<ps::ParameterGroup> test_groups() {
  ps::ParameterGroup group;
  group.tensors = {"bias", "wide"};
  group.rate = 0.5;
  group.weight_decay = 0;
  return {group};
}

std::vector<float> random_floats(std::uint64_t seed) {
  Rng rng(seed);
  std::vector<float> values(static_cast<std::size_t>(test_layout().size()));
  for (const ps::TensorSpec& tensor : test_layout().tensors()) {
    for (std::int64_t i = tensor.offset; i < tensor.offset + tensor.size; ++i)
      values[static_cast<std::size_t>(i)] = static_cast<float>(rng.normal());
  }
  return values;
}

class KernelShard {
 public:
  KernelShard(const OptimizerConfig& optimizer, bool look_ahead, Grid grid)
      : plan_(ps::StepPlan::of(test_layout(), optimizer, test_groups())),
        grid_(grid),
        tables_(tensors_of(plan_)),
        streams_(static_cast<std::size_t>(ps::state_streams(optimizer.kind)),
                 std::vector<float>(static_cast<std::size_t>(test_layout().size()))),
        direction_(look_ahead ? static_cast<std::size_t>(test_layout().size()) : 0) {}

  void start(std::vector<float> weights) { weights_ = std::move(weights); }

  void apply(const ps::Update& update, float factor) {
    std::vector<MemberArgument> members;
    for (const ps::Update::Member& one : update.members)
      members.push_back({one.gradient, static_cast<float>(one.weight), static_cast<float>(one.share)});
    fractions_ += update.fraction;
    std::vector<ps::StepNumbers> numbers;
    for (const OptimizerConfig& one : plan_.optimizers) {
      numbers.push_back(ps::step_numbers(one, update.learning_rate, update.fraction, fractions_));
      if (!direction_.empty())
        numbers.back().direction = static_cast<float>(ps::direction_scale(plan_.optimizer, one));
    }
    std::vector<float> next = weights_;  // the constants
    std::vector<double> weight_squares(tables_.blocks.size()), step_squares(tables_.blocks.size());
    std::vector<float> factors(tables_.tensors.size()), row_factors(size_of(tables_.row_count));
    std::vector<double> sums(size_of(tables_.sum_count)), means(size_of(tables_.column_count));
    std::uint32_t marks = 0;
    TensorArguments all;
    all.update.weights = weights_.data();
    all.update.next = next.data();
    all.update.state1 = streams_[0].data();
    all.update.state2 = streams_.size() > 1 ? streams_[1].data() : nullptr;
    all.update.direction = direction_.empty() ? nullptr : direction_.data();
    all.update.pieces = tables_.pieces.data();
    all.update.piece_count = static_cast<std::int32_t>(tables_.pieces.size());
    all.update.members = members.data();
    all.update.member_count = static_cast<std::int32_t>(members.size());
    all.update.numbers = numbers.data();
    all.update.gradient_factor = &factor;
    all.update.pull = ps::statistics_pull(update.fraction);
    all.update.marks = &marks;
    all.tensors = tables_.tensors.data();
    all.tensor_count = static_cast<std::int32_t>(tables_.tensors.size());
    all.weight_squares = weight_squares.data();
    all.step_squares = step_squares.data();
    all.factors = factors.data();
    all.row_factors = row_factors.data();
    all.sums = sums.data();
    all.means = means.data();
    all.row_count = tables_.row_count;
    all.sum_count = tables_.sum_count;
    all.column_count = tables_.column_count;
    for (const char* const name : tensor_kernels(plan_.optimizer.kind)) {
      if (name != std::string_view(kSquaresLanesKernel)) {
        launch(name, all, grid_);
        continue;
      }
      find_squares(weights_, weight_squares);
      find_squares(next, step_squares);
    }
    weights_ = next;
    finite_ = marks == 0;
  }

  void expect_equal_to(const ps::Shard& shard) const {
    expect_same(weights_, shard.weights(), "weights");
    for (std::size_t i = 0; i < streams_.size(); ++i)
      expect_same(streams_[i], shard.read_state().value().streams[i], "state");
    expect_same(direction_, shard.direction(), "direction");
    EXPECT_EQ(finite_, shard.finite());
  }
  const std::vector<float>& weights() const { return weights_; }

 private:
  static std::size_t size_of(std::int64_t count) { return static_cast<std::size_t>(count); }

  void find_squares(const std::vector<float>& values, std::vector<double>& squares) {
    std::vector<double> lanes(squares.size() * ps::kSquaresLanes);
    const MemberArgument member{values.data(), 1, 1};
    SquaresArguments arguments;
    arguments.members = &member;
    arguments.blocks = tables_.blocks.data();
    arguments.lanes = lanes.data();
    arguments.squares = squares.data();
    arguments.member_count = 1;
    arguments.block_count = static_cast<std::int32_t>(squares.size());
    launch(kSquaresLanesKernel, arguments, grid_);
    launch(kSquaresBlocksKernel, arguments, grid_);
  }

  static void expect_same(std::span<const float> left, std::span<const float> right, const char* what) {
    ASSERT_EQ(left.size(), right.size()) << what;
    for (std::size_t i = 0; i < left.size(); ++i) {
      if (std::isnan(left[i]) && std::isnan(right[i])) continue;
      ASSERT_EQ(std::bit_cast<std::uint32_t>(left[i]), std::bit_cast<std::uint32_t>(right[i]))
          << what << ", float " << i << ": " << left[i] << " and " << right[i];
    }
  }

  const ps::StepPlan plan_;
  const Grid grid_;
  const TensorTables tables_;
  std::vector<float> weights_;
  std::vector<std::vector<float>> streams_;
  std::vector<float> direction_;
  double fractions_ = 0;
  bool finite_ = true;
};

ps::Shard shard_of(const OptimizerConfig& optimizer, bool look_ahead) {
  return host_shard(test_layout(), optimizer, test_groups(), look_ahead);
}

struct Commit : CommitOfGradients {
  Commit(int version, int members, double fraction)
      : CommitOfGradients(version, members, fraction, random_floats) {}
};

class TensorKernels : public ::testing::TestWithParam<OptimizerConfig> {};
INSTANTIATE_TEST_SUITE_P(Optimizers, TensorKernels, ::testing::ValuesIn(kOptimizers));

TEST_P(TensorKernels, StepLikeAShard) {
  for (const bool look_ahead : {false, true}) {
    if (look_ahead && !ps::has_direction(GetParam().kind)) continue;
    ps::Shard shard = shard_of(GetParam(), look_ahead);
    KernelShard kernels(GetParam(), look_ahead, {7, 96});
    ASSERT_TRUE(shard.start(Version(0), random_floats(9)).ok());
    kernels.start(random_floats(9));
    for (int version = 1; version <= 4 && !HasFatalFailure(); ++version) {
      SCOPED_TRACE(version);
      const Commit commit(version, version, version == 3 ? 1 : 0.3);
      ASSERT_TRUE(shard.apply(commit.update).ok());
      kernels.apply(commit.update, 1);
      kernels.expect_equal_to(shard);
    }
  }
}

TEST_P(TensorKernels, ScaleAGradientThatIsTooLong) {
  OptimizerConfig optimizer = GetParam();
  optimizer.clip = 0.1;
  ps::Shard shard = shard_of(optimizer, false);
  KernelShard kernels(optimizer, false, {7, 96});
  ASSERT_TRUE(shard.start(Version(0), random_floats(9)).ok());
  kernels.start(random_floats(9));
  Commit commit(1, 2, 0.3);
  double squares = 0;
  commit.update.squares_of_all = [&](double own) { return squares = own; };
  ASSERT_TRUE(shard.apply(commit.update).ok());
  kernels.apply(commit.update, ps::clip_factor(std::sqrt(squares), optimizer.clip));
  kernels.expect_equal_to(shard);
}

TEST_P(TensorKernels, MakeTheSameBytesInAnyGrid) {
  const Commit commit(1, 2, 0.3);
  KernelShard one(GetParam(), false, {1, 1});
  one.start(random_floats(9));
  one.apply(commit.update, 1);
  for (const Grid grid : {Grid{1, 32}, Grid{3, 100}, Grid{300, 256}}) {
    KernelShard other(GetParam(), false, grid);
    other.start(random_floats(9));
    other.apply(commit.update, 1);
    EXPECT_EQ(one.weights(), other.weights()) << grid.blocks << " blocks";
  }
}

TEST_P(TensorKernels, MarkWhatIsNotFinite) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    for (const ps::TensorSpec& tensor : test_layout().tensors()) {
      if (tensor.kind == TensorKind::kConstant) continue;
      SCOPED_TRACE(tensor.name);
      Commit commit(1, 2, 0.3);
      commit.gradients[1][static_cast<std::size_t>(tensor.offset + tensor.size - 1)] = bad;
      ps::Shard shard = shard_of(GetParam(), false);
      KernelShard kernels(GetParam(), false, {7, 96});
      ASSERT_TRUE(shard.start(Version(0), random_floats(9)).ok());
      kernels.start(random_floats(9));
      ASSERT_TRUE(shard.apply(commit.update).ok());
      EXPECT_FALSE(shard.finite());
      kernels.apply(commit.update, 1);
      kernels.expect_equal_to(shard);
    }
  }
}

TEST(TensorKernelsPtx, HasEachKernel) {
  const std::string ptx = kernels_ptx();
  for (const OptimizerConfig& one : kOptimizers) {
    for (const char* const name : tensor_kernels(one.kind))
      EXPECT_THAT(ptx, ::testing::HasSubstr(std::string(".visible .entry ") + name + "("));
  }
}

}  // namespace
}  // namespace paceline::cuda
