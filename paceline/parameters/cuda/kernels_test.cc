// The kernels against ps::Shard, to the bit. Here they run on a processor, one thread after the other; their
// PTX is only read.
#include "paceline/parameters/cuda/kernels.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/base/rng.h"
#include "paceline/parameters/cuda/host_kernels.h"
#include "paceline/parameters/cuda/kernel_arguments.h"
#include "paceline/parameters/cuda/pieces.h"
#include "paceline/parameters/cuda/testing/kernel_setup.h"
#include "paceline/parameters/ps/look_ahead.h"
#include "paceline/parameters/ps/shard.h"
#include "paceline/parameters/ps/testing/every_optimizer.h"

namespace paceline::cuda {
namespace {

using ps::OptimizerConfig;
using ps::OptimizerKind;
using ps::TensorKind;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

const std::vector<OptimizerConfig> kOptimizers = ps::testing::elementwise_optimizers();
constexpr OptimizerConfig kSgd{.kind = OptimizerKind::kSgd, .weight_decay = 1e-3};
constexpr OptimizerConfig kAdam{.kind = OptimizerKind::kAdam, .weight_decay = 1e-2};

// Parameters of two groups, statistics and a constant, of sizes that are no multiples of anything. The first
// tensor is longer than a piece, and long enough for several groups of blocks.
const ps::Layout& test_layout() {
  static const ps::Layout layout = [] {
    ps::Layout made;
    made.add("weight", TensorKind::kParameter, {131, 1003});
    made.add("mean", TensorKind::kStatistic, {41});
    made.add("bias", TensorKind::kParameter, {7});
    made.add("table", TensorKind::kConstant, {100});
    made.add("head.weight", TensorKind::kParameter, {4099});
    made.add("head.bias", TensorKind::kParameter, {1});
    made.add("variance", TensorKind::kStatistic, {5003});
    return made;
  }();
  return layout;
}

std::vector<ps::ParameterGroup> test_groups() {
  ps::ParameterGroup head;
  head.tensors = {"head.weight"};
  head.rate = 0.1;
  head.weight_decay = 0;
  return {head};
}

std::vector<float> random_floats(std::uint64_t seed) {
  static std::map<std::uint64_t, std::vector<float>> made;
  std::vector<float>& values = made[seed];
  if (values.empty()) {
    Rng rng(seed);
    values.resize(static_cast<std::size_t>(test_layout().size()));
    for (float& value : values) value = static_cast<float>(rng.normal());
    // All members have the same numbers in a part of their statistics.
    for (const ps::TensorSpec& tensor : test_layout().tensors()) {
      if (tensor.name == "variance") std::fill_n(values.begin() + tensor.offset, 1001, 0.1F);
    }
  }
  return values;
}

// A shard whose commits are kernels.
class KernelShard {
 public:
  KernelShard(const OptimizerConfig& optimizer, bool look_ahead, Grid grid)
      : optimizer_(optimizer),
        grid_(grid),
        names_(kernels_of(optimizer.kind)),
        optimizers_{optimizer},
        streams_(static_cast<std::size_t>(ps::state_streams(optimizer.kind)),
                 std::vector<float>(static_cast<std::size_t>(test_layout().size()))),
        direction_(look_ahead ? static_cast<std::size_t>(test_layout().size()) : 0) {
    for (const ps::ParameterGroup& group : test_groups())
      optimizers_.push_back(optimizer_of(optimizer, group));
    pieces_ = pieces_of(ps::passes_of(test_layout(), test_groups()), 0, test_layout().size());
    blocks_ = blocks_of(ps::squares_blocks(test_layout(), 0));
  }

  void start(std::vector<float> weights) { weights_ = std::move(weights); }
  void cut(std::vector<Piece> pieces) { pieces_ = std::move(pieces); }

  void apply(const ps::Update& update) {
    std::vector<MemberArgument> members;
    for (const ps::Update::Member& one : update.members)
      members.push_back({one.gradient, static_cast<float>(one.weight), static_cast<float>(one.share)});
    fractions_ += update.fraction;
    numbers_.clear();
    for (const OptimizerConfig& one : optimizers_) {
      numbers_.push_back(update.of_differences
                             ? ps::averaging_numbers()
                             : ps::step_numbers(one, update.learning_rate, update.fraction, fractions_));
      if (!update.of_differences)
        numbers_.back().direction = static_cast<float>(ps::direction_scale(optimizer_, one));
    }
    const bool clips = optimizer_.clip > 0 && !update.of_differences;
    if (clips) find_factor(members);
    std::vector<float> next = weights_;  // the constants
    std::uint32_t marks = 0;
    UpdateArguments arguments = state();
    arguments.weights = weights_.data();
    arguments.next = next.data();
    arguments.members = members.data();
    arguments.member_count = static_cast<std::int32_t>(members.size());
    arguments.gradient_factor = clips ? &factor_ : nullptr;
    arguments.pull = update.of_differences ? 1.0f : ps::statistics_pull(update.fraction);
    arguments.marks = &marks;
    launch(names_.step, arguments, grid_);
    weights_ = next;
    finite_ = marks == 0;
    EXPECT_TRUE(marks == 0 || marks == kNotFinite);
  }

  void write_direction() {
    std::fill(direction_.begin(), direction_.end(), 0.0f);
    launch(names_.direction, state(), grid_);
  }

  const std::vector<float>& weights() const { return weights_; }
  const std::vector<std::vector<float>>& streams() const { return streams_; }
  const std::vector<float>& direction() const { return direction_; }
  double squares() const { return squares_; }
  bool finite() const { return finite_; }

 private:
  UpdateArguments state() {
    UpdateArguments arguments;
    arguments.state1 = streams_[0].data();
    arguments.state2 = streams_.size() > 1 ? streams_[1].data() : nullptr;
    arguments.direction = direction_.empty() ? nullptr : direction_.data();
    arguments.pieces = pieces_.data();
    arguments.piece_count = static_cast<std::int32_t>(pieces_.size());
    arguments.numbers = numbers_.data();
    return arguments;
  }

  void find_factor(const std::vector<MemberArgument>& members) {
    const std::size_t count = blocks_.size();
    std::vector<double> lanes(count * ps::kSquaresLanes), squares(count);
    std::vector<double> groups((count + ps::kSquaresGroup - 1) / ps::kSquaresGroup);
    SquaresArguments arguments;
    arguments.members = members.data();
    arguments.blocks = blocks_.data();
    arguments.lanes = lanes.data();
    arguments.squares = squares.data();
    arguments.groups = groups.data();
    arguments.member_count = static_cast<std::int32_t>(members.size());
    arguments.block_count = static_cast<std::int32_t>(count);
    arguments.group_count = static_cast<std::int32_t>(groups.size());
    ASSERT_GT(groups.size(), 1u);
    launch(kSquaresLanesKernel, arguments, grid_);
    launch(kSquaresBlocksKernel, arguments, grid_);
    launch(kSquaresGroupsKernel, arguments, grid_);
    ClipArguments clip;
    clip.groups = groups.data();
    clip.group_count = arguments.group_count;
    clip.total = &squares_;
    launch(kClipFactorKernel, clip, {1, 1});
    ClipArguments of_total;  // the way of shards that see only a part each
    of_total.total = &squares_;
    of_total.factor = &factor_;
    of_total.clip = optimizer_.clip;
    launch(kClipFactorKernel, of_total, {1, 1});
  }

  const OptimizerConfig optimizer_;
  const Grid grid_;
  const KernelNames names_;
  std::vector<OptimizerConfig> optimizers_;
  std::vector<Piece> pieces_;
  std::vector<SquaresBlock> blocks_;
  std::vector<float> weights_;
  std::vector<std::vector<float>> streams_;
  std::vector<float> direction_;
  std::vector<ps::StepNumbers> numbers_;
  double fractions_ = 0;
  double squares_ = 0;
  float factor_ = 0;
  bool finite_ = true;
};

ps::Shard shard_of(const OptimizerConfig& optimizer, bool look_ahead) {
  return host_shard(test_layout(), optimizer, test_groups(), look_ahead);
}

struct Commit : CommitOfGradients {
  Commit(int version, int members, double fraction)
      : CommitOfGradients(version, members, fraction, random_floats) {}
};

// The first number that differs, or an empty text. One NaN is as good as another.
std::string difference(std::span<const float> left, std::span<const float> right) {
  if (left.size() != right.size()) return "sizes";
  for (std::size_t i = 0; i < left.size(); ++i) {
    if (std::isnan(left[i]) && std::isnan(right[i])) continue;
    if (std::bit_cast<std::uint32_t>(left[i]) != std::bit_cast<std::uint32_t>(right[i]))
      return fmt::format("float {}: {} and {}", i, left[i], right[i]);
  }
  return "";
}

void expect_equal(const KernelShard& kernels, const ps::Shard& shard) {
  EXPECT_EQ(difference(kernels.weights(), shard.weights()), "");
  for (std::size_t i = 0; i < kernels.streams().size(); ++i)
    EXPECT_EQ(difference(kernels.streams()[i], shard.optimizer_state().streams[i]), "") << "stream " << i;
  EXPECT_EQ(difference(kernels.direction(), shard.direction()), "");
  EXPECT_EQ(kernels.finite(), shard.finite());
}

class Kernels : public ::testing::TestWithParam<OptimizerConfig> {};
INSTANTIATE_TEST_SUITE_P(Optimizers, Kernels, ::testing::ValuesIn(kOptimizers));

TEST_P(Kernels, StepLikeAShardForOneToFiveMembers) {
  for (const bool look_ahead : {false, true}) {
    if (look_ahead && !ps::has_direction(GetParam().kind)) continue;
    for (const double clip : {0.0, 1e-3, 1e3}) {
      OptimizerConfig optimizer = GetParam();
      optimizer.clip = clip;
      ps::Shard shard = shard_of(optimizer, look_ahead);
      KernelShard kernels(optimizer, look_ahead, {7, 96});
      EXPECT_TRUE(shard.start(Version(0), random_floats(9)).ok());
      kernels.start(random_floats(9));
      for (int version = 1; version <= 5; ++version) {
        SCOPED_TRACE(fmt::format("version {}, look-ahead {}, clip {}", version, look_ahead, clip));
        Commit commit(version, version, version == 3 ? 1 : 0.3);
        double squares = 0;
        commit.update.squares_of_all = [&](double own) {
          squares = own;
          return own;
        };
        ASSERT_TRUE(shard.apply(commit.update).ok());
        kernels.apply(commit.update);
        expect_equal(kernels, shard);
        EXPECT_EQ(squares, kernels.squares());
      }
    }
  }
}

TEST_P(Kernels, MakeTheSameBytesInAnyGrid) {
  OptimizerConfig optimizer = GetParam();
  optimizer.clip = 0.5;
  const Commit commit(1, 2, 0.5);
  const bool look_ahead = ps::has_direction(optimizer.kind);
  KernelShard one(optimizer, look_ahead, {1, 1});
  one.start(random_floats(9));
  one.apply(commit.update);
  for (const Grid grid : {Grid{1, 32}, Grid{3, 100}, Grid{500, 256}}) {
    KernelShard other(optimizer, look_ahead, grid);
    other.start(random_floats(9));
    other.apply(commit.update);
    EXPECT_EQ(difference(one.weights(), other.weights()), "") << grid.blocks << " blocks";
    EXPECT_EQ(difference(one.streams()[0], other.streams()[0]), "") << grid.blocks << " blocks";
    EXPECT_EQ(one.squares(), other.squares());
  }
}

TEST_P(Kernels, StepPiecesAndGradientsThatAreNotAligned) {
  const ps::Layout& layout = test_layout();
  std::vector<Piece> pieces;
  for (const Piece& piece : pieces_of(ps::passes_of(layout, test_groups()), 0, layout.size())) {
    const std::int32_t first = piece.size / 3;
    pieces.push_back({piece.begin, first, piece.kind, piece.optimizer});
    pieces.push_back({piece.begin + first, piece.size - first, piece.kind, piece.optimizer});
  }
  Commit commit(1, 3, 0.5);
  std::vector<float> moved(commit.gradients[1].size() + 1);
  std::copy(commit.gradients[1].begin(), commit.gradients[1].end(), moved.begin() + 1);
  commit.update.members[1].gradient = moved.data() + 1;
  const bool look_ahead = ps::has_direction(GetParam().kind);
  ps::Shard shard = shard_of(GetParam(), look_ahead);
  KernelShard kernels(GetParam(), look_ahead, {7, 64});
  EXPECT_TRUE(shard.start(Version(0), random_floats(9)).ok());
  kernels.start(random_floats(9));
  kernels.cut(pieces);
  ASSERT_TRUE(shard.apply(commit.update).ok());
  kernels.apply(commit.update);
  expect_equal(kernels, shard);
}

TEST_P(Kernels, MarkWhatIsNotFinite) {
  const ps::Layout& layout = test_layout();
  for (const float bad : {kNan, kInfinity, -kInfinity}) {
    // The first and last parameter, and both statistics; the last float of a tensor is not in a vector of
    // four.
    for (const std::size_t tensor : {0u, 1u, 5u, 6u}) {
      for (const double clip : {0.0, 1.0}) {
        SCOPED_TRACE(fmt::format("{} in tensor {}, clip {}", bad, tensor, clip));
        OptimizerConfig optimizer = GetParam();
        optimizer.clip = clip;
        Commit commit(1, 2, 0.5);
        const ps::TensorSpec& spec = layout.tensors()[tensor];
        commit.gradients[1][static_cast<std::size_t>(spec.offset + spec.size - 1)] = bad;
        ps::Shard shard = shard_of(optimizer, false);
        KernelShard kernels(optimizer, false, {7, 64});
        EXPECT_TRUE(shard.start(Version(0), random_floats(9)).ok());
        kernels.start(random_floats(9));
        ASSERT_TRUE(shard.apply(commit.update).ok());
        kernels.apply(commit.update);
        EXPECT_FALSE(kernels.finite());
        expect_equal(kernels, shard);
      }
    }
  }
}

TEST_P(Kernels, WriteTheDirectionOfTheStateAgain) {
  if (!ps::has_direction(GetParam().kind)) return;
  ps::Shard shard = shard_of(GetParam(), true);
  KernelShard kernels(GetParam(), true, {7, 64});
  EXPECT_TRUE(shard.start(Version(0), random_floats(9)).ok());
  kernels.start(random_floats(9));
  const Commit commit(1, 2, 1);
  ASSERT_TRUE(shard.apply(commit.update).ok());
  kernels.apply(commit.update);
  kernels.write_direction();
  expect_equal(kernels, shard);
}

TEST(OneKernel, StepsByDifferencesAsSgdDoes) {
  ps::Shard shard = shard_of(kSgd, false);
  KernelShard kernels(kSgd, false, {7, 64});
  EXPECT_TRUE(shard.start(Version(0), random_floats(9)).ok());
  kernels.start(random_floats(9));
  Commit commit(1, 3, 0.5);
  commit.update.of_differences = true;
  ASSERT_TRUE(shard.apply(commit.update).ok());
  kernels.apply(commit.update);
  expect_equal(kernels, shard);
}

// A shard can then go back to the state of the version before.
TEST(OneKernel, LeavesTheStateBeforeAsItIsIfItIsGivenAnotherPlace) {
  constexpr std::int32_t kSize = 1001;
  const std::vector<float> weights(kSize, 1.0f), gradient(kSize, 0.5f), first(kSize, 0.1f),
      second(kSize, 0.2f);
  const ps::StepNumbers numbers = ps::step_numbers(kAdam, 0.1, 1, 3);
  const Piece piece{0, kSize, kParameterPiece, 0};
  const MemberArgument member{gradient.data(), 1, 1};
  const auto arguments_for = [&](std::vector<float>& next, std::uint32_t& marks) {
    UpdateArguments arguments;
    arguments.weights = weights.data();
    arguments.next = next.data();
    arguments.pieces = &piece;
    arguments.piece_count = 1;
    arguments.members = &member;
    arguments.member_count = 1;
    arguments.numbers = &numbers;
    arguments.marks = &marks;
    return arguments;
  };
  std::uint32_t marks = 0;
  std::vector<float> next(kSize), in_place1 = first, in_place2 = second;
  UpdateArguments in_place = arguments_for(next, marks);
  in_place.state1 = in_place1.data();
  in_place.state2 = in_place2.data();
  launch("paceline_step_adam", in_place, {1, 64});
  std::vector<float> other_next(kSize), other1(kSize), other2(kSize);
  std::vector<float> before1 = first, before2 = second;
  UpdateArguments elsewhere = arguments_for(other_next, marks);
  elsewhere.state1 = other1.data();
  elsewhere.state2 = other2.data();
  elsewhere.state1_before = before1.data();
  elsewhere.state2_before = before2.data();
  launch("paceline_step_adam", elsewhere, {1, 64});
  EXPECT_EQ(before1, first);
  EXPECT_EQ(before2, second);
  EXPECT_EQ(other_next, next);
  EXPECT_EQ(other1, in_place1);
  EXPECT_EQ(other2, in_place2);
}

TEST(OneKernel, FindsWhatIsNotFiniteInPiecesAlone) {
  std::vector<float> values(300, 1.0f);
  const Piece pieces[] = {{0, 101, kParameterPiece, 0}, {201, 99, kStatisticPiece, 0}};
  for (std::size_t bad = 0; bad < values.size(); ++bad) {
    values[bad] = kNan;
    std::uint32_t marks = 0;
    launch(kFiniteKernel, FiniteArguments{values.data(), pieces, &marks, 2}, {2, 32});
    EXPECT_EQ(marks, bad < 101 || bad >= 201 ? kNotFinite : 0u) << bad;
    values[bad] = 1;
  }
}

TEST(HostKernels, KnowNoOtherName) { EXPECT_EQ(paceline_host_kernel("paceline_step"), nullptr); }

TEST(KernelsPtx, HasEachKernel) {
  const std::string ptx = kernels_ptx();
  std::vector<std::string> names = {kSquaresLanesKernel, kSquaresBlocksKernel, kSquaresGroupsKernel,
                                    kClipFactorKernel, kFiniteKernel};
  for (const OptimizerConfig& one : kOptimizers) {
    names.emplace_back(kernels_of(one.kind).step);
    if (ps::has_direction(one.kind)) names.emplace_back(kernels_of(one.kind).direction);
  }
  for (const std::string& name : names) {
    EXPECT_THAT(ptx, HasSubstr(".visible .entry " + name + "("));
    EXPECT_NE(paceline_host_kernel(name.c_str()), nullptr) << name;
  }
}

// Each of these would round otherwise than a processor does. The driver makes a fused instruction of a
// product and a sum only if they do not say how they round.
TEST(KernelsPtx, RoundsLikeAProcessor) {
  const std::string ptx = kernels_ptx();
  for (const char* wrong :
       {"fma.", "mad.f", "mad.rn.f", ".ftz", ".approx", ".full", "mul.f", "add.f", "sub.f"})
    EXPECT_THAT(ptx, Not(HasSubstr(wrong)));
  EXPECT_THAT(ptx, HasSubstr("sqrt.rn.f32"));
  EXPECT_THAT(ptx, HasSubstr("div.rn.f32"));
}

TEST(KernelsPtx, LoadsAndStoresFourFloatsAtATime) {
  EXPECT_THAT(kernels_ptx(), HasSubstr("ld.global.v4.f32"));
  EXPECT_THAT(kernels_ptx(), HasSubstr("st.global.v4.f32"));
}

}  // namespace
}  // namespace paceline::cuda
