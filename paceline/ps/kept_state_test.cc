// A shard whose memory outlives it: the shard that takes it up goes on as the first one would have, whenever that one ended.
#include "paceline/ps/kept_state.h"

#include <fcntl.h>

#include <optional>
#include <vector>

#include <gtest/gtest.h>

#include "paceline/base/rng.h"
#include "paceline/ps/shard.h"

namespace paceline::ps {
namespace {

constexpr std::uint64_t kIdentity = 7;

class KeptShardTest : public testing::TestWithParam<OptimizerKind> {
 protected:
  static Layout layout() {
    Layout layout;
    layout.add("a", TensorKind::kParameter, {300, 70});
    layout.add("s", TensorKind::kStatistic, {33});
    layout.add("c", TensorKind::kConstant, {5});
    return layout;
  }
  static OptimizerConfig optimizer() {
    OptimizerConfig optimizer;
    optimizer.kind = GetParam();
    return optimizer;
  }
  static int streams() { return state_streams(GetParam()); }
  static memory::SharedMemory copy(const memory::SharedMemory& memory) {
    return memory::SharedMemory::adopt(FileDescriptor(fcntl(memory.descriptor(), F_DUPFD_CLOEXEC, 0))).value();
  }
  // Publishes version 0. Its memory stays in board_ and state_.
  Shard begin() {
    const std::int64_t floats = Shard::board_floats(layout(), false);
    auto board = memory::WeightWriter::create(floats, 2, 2).value();
    auto state = KeptState::create(streams(), layout().size(), kIdentity).value();
    board_.emplace(copy(board.memory()));
    state_.emplace(copy(state.memory()));
    Shard shard(layout(), optimizer(), std::move(board), 2, {}, {}, std::move(state));
    EXPECT_TRUE(shard.start(Version(0), std::vector<float>(static_cast<std::size_t>(layout().size()), 0.5f)).ok());
    return shard;
  }
  Shard take_up() {
    auto board = memory::WeightWriter::adopt(copy(*board_), Shard::board_floats(layout(), false), 2, 2);
    Shard shard(layout(), optimizer(), std::move(board).value(), 2, {}, {},
                KeptState::adopt(copy(*state_), streams(), layout().size(), kIdentity).value());
    EXPECT_TRUE(shard.take_up().ok());
    return shard;
  }
  // Of version v; all zero where nothing is trained.
  static Update update(std::int64_t version, std::vector<float>& gradient) {
    Rng rng(static_cast<std::uint64_t>(version));
    gradient.assign(static_cast<std::size_t>(layout().size()), 0);
    for (float& value : gradient) value = static_cast<float>(rng.uniform() - 0.5);
    return {.version = Version(version), .members = {{gradient.data(), 1, 1}}, .learning_rate = 0.1};
  }
  static void commit(Shard& shard, std::int64_t version) {
    std::vector<float> gradient;
    ASSERT_TRUE(shard.apply(update(version, gradient)).ok());
  }
  static void expect_equal(const Shard& a, const Shard& b) {
    EXPECT_EQ(a.version(), b.version());
    EXPECT_EQ(a.read(a.weights()).value(), b.read(b.weights()).value());
    EXPECT_EQ(a.optimizer_state().streams, b.optimizer_state().streams);
    EXPECT_EQ(a.optimizer_state().fractions, b.optimizer_state().fractions);
  }

  std::optional<memory::SharedMemory> board_, state_;
};

TEST_P(KeptShardTest, GoesOnWithTheSameNumbers) {
  Shard undisturbed(layout(), optimizer(),
                    memory::WeightWriter::create(Shard::board_floats(layout(), false), 2, 2).value(), 2);
  ASSERT_TRUE(
      undisturbed.start(Version(0), std::vector<float>(static_cast<std::size_t>(layout().size()), 0.5f)).ok());
  for (std::int64_t version = 1; version <= 6; ++version) commit(undisturbed, version);
  std::optional<Shard> shard(begin());
  for (std::int64_t version = 1; version <= 6; ++version) {
    commit(*shard, version);
    shard.reset();
    shard.emplace(take_up());
  }
  expect_equal(*shard, undisturbed);
}

// The update has written some of the next version and of the next state when the first shard ends.
TEST_P(KeptShardTest, UndoesAnUpdateThatWasCut) {
  std::optional<Shard> shard(begin());
  for (std::int64_t version = 1; version <= 3; ++version) commit(*shard, version);
  std::vector<float> gradient;
  ASSERT_TRUE(shard->prepare(update(4, gradient)).ok());  // all of it but its publication
  shard.reset();
  Shard next = take_up();
  EXPECT_EQ(next.version(), Version(3));
  commit(next, 4);
  Shard undisturbed = begin();
  for (std::int64_t version = 1; version <= 4; ++version) commit(undisturbed, version);
  expect_equal(next, undisturbed);
}

INSTANTIATE_TEST_SUITE_P(Optimizers, KeptShardTest,
                         testing::Values(OptimizerKind::kSgd, OptimizerKind::kAdam, OptimizerKind::kLamb));

TEST(KeptState, OfAnotherShardIsNotTakenUp) {
  const auto adopt = [](std::int64_t floats, std::uint64_t identity) {
    const KeptState state = KeptState::create(1, 64, kIdentity).value();
    return KeptState::adopt(
               memory::SharedMemory::adopt(FileDescriptor(fcntl(state.memory().descriptor(), F_DUPFD_CLOEXEC, 0)))
                   .value(),
               1, floats, identity)
        .status();
  };
  EXPECT_TRUE(adopt(64, kIdentity).ok());
  EXPECT_FALSE(adopt(64, kIdentity + 1).ok());
  EXPECT_FALSE(adopt(1 << 20, kIdentity).ok());
}

}  // namespace
}  // namespace paceline::ps
