// A shard whose memory outlives its process: the shard that takes it up goes on as the first one would have, wherever
// the first process ended.
#include "paceline/parameters/ps/kept_state.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <functional>
#include <limits>
#include <optional>
#include <vector>

#include <gtest/gtest.h>

#include "paceline/base/rng.h"
#include "paceline/base/testing/effort.h"
#include "paceline/parameters/ps/shard.h"

namespace paceline::ps {
namespace {

constexpr std::uint64_t kIdentity = 7;
constexpr std::int64_t kSmallPiece = 2 * Layout::kAlignment;

ipc::SharedMemory same(const ipc::SharedMemory& memory) {
  return ipc::SharedMemory::adopt(FileDescriptor(fcntl(memory.descriptor(), F_DUPFD_CLOEXEC, 0))).value();
}

ipc::Mapping whole(const ipc::SharedMemory& memory) { return memory.map(0, memory.size(), true).value(); }

ipc::SharedMemory copy_of(const ipc::Mapping& from) {
  auto memory = ipc::SharedMemory::create("copy", from.size()).value();
  std::memcpy(whole(memory).data(), from.data(), from.size());
  return memory;
}

// The shared memory of a shard.
struct Places {
  std::optional<ipc::SharedMemory> board, state;

  Places copy() const { return {copy_of(whole(*board)), copy_of(whole(*state))}; }
};

class KeptShardTest : public ::testing::TestWithParam<OptimizerKind> {
 protected:
  static Layout layout() {
    Layout layout;
    layout.add("a", TensorKind::kParameter, {5, 19});
    layout.add("c", TensorKind::kConstant, {5});
    layout.add("s", TensorKind::kStatistic, {33});
    return layout;
  }
  static OptimizerConfig optimizer() {
    OptimizerConfig optimizer;
    optimizer.kind = GetParam();
    return optimizer;
  }
  static std::vector<float> first_weights() {
    return std::vector<float>(static_cast<std::size_t>(layout().size()), 0.5f);
  }
  static KeptShape shape(int chains) { return KeptShape::of(layout(), GetParam(), chains, kSmallPiece); }
  static std::int64_t floats() { return Shard::board_floats(layout(), true); }

  // Publishes version 0.
  static Shard begin(Places& places, int threads, int chains) {
    auto board = memory::WeightWriter::create(floats(), 2, 2).value();
    auto state = KeptState::create(shape(chains), kIdentity).value();
    places.board.emplace(same(board.memory()));
    places.state.emplace(same(state.memory()));
    Shard shard(layout(), optimizer(), std::move(board), threads, {}, {}, std::move(state));
    EXPECT_TRUE(shard.start(Version(0), first_weights()).ok());
    return shard;
  }
  static Shard take_up(const Places& places, int threads, int chains) {
    auto board = memory::WeightWriter::adopt(same(*places.board), floats(), 2, 2);
    Shard shard(layout(), optimizer(), std::move(board).value(), threads, {}, {},
                KeptState::adopt(same(*places.state), shape(chains), kIdentity).value());
    const absl::Status status = shard.take_up();
    EXPECT_TRUE(status.ok()) << status;
    return shard;
  }
  static Update update(std::int64_t version, std::vector<float>& gradient) {
    Rng rng(static_cast<std::uint64_t>(version));
    gradient.assign(static_cast<std::size_t>(layout().size()), 0);
    for (float& value : gradient) value = static_cast<float>(rng.uniform() - 0.5);
    return {.version = Version(version),
            .members = {{gradient.data(), 1, 1}},
            .learning_rate = 0.1,
            .only_finite = true};
  }
  static void commit(Shard& shard, std::int64_t version) {
    std::vector<float> gradient;
    ASSERT_TRUE(shard.apply(update(version, gradient)).ok());
  }
  // The shard without a kept state that nobody disturbs.
  static Shard undisturbed(std::int64_t version) {
    Shard shard(layout(), optimizer(), memory::WeightWriter::create(floats(), 2, 2).value(), 1);
    EXPECT_TRUE(shard.start(Version(0), first_weights()).ok());
    for (std::int64_t one = 1; one <= version; ++one) commit(shard, one);
    return shard;
  }
  static void expect_equal(const Shard& a, const Shard& b) {
    ASSERT_EQ(a.version(), b.version());
    ASSERT_EQ(a.read(a.weights()).value(), b.read(b.weights()).value());
    ASSERT_EQ(a.optimizer_state().streams, b.optimizer_state().streams);
    ASSERT_EQ(a.optimizer_state().fractions, b.optimizer_state().fractions);
  }
};

TEST_P(KeptShardTest, GoesOnWithTheSameNumbers) {
  for (const int threads : {1, 3}) {
    Places places;
    std::optional<Shard> shard(begin(places, threads, threads));
    for (std::int64_t version = 1; version <= 6; ++version) {
      commit(*shard, version);
      shard.reset();
      shard.emplace(take_up(places, threads, threads));
    }
    expect_equal(*shard, undisturbed(6));
  }
}

// A process that runs one instruction after the other, so that another one sees the memory between any two of them.
class Stepped {
 public:
  explicit Stepped(const std::function<void()>& work) : pid_(fork()) {
    if (pid_ != 0) return;
    if (ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) _exit(kNotPermitted);
    raise(SIGSTOP);
    work();
    _exit(0);
  }
  ~Stepped() {
    if (ended_) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  Stepped(const Stepped&) = delete;
  Stepped& operator=(const Stepped&) = delete;

  // Waits for the process before its first instruction. False if this system permits no tracing.
  bool begin() { return wait(); }
  // Runs one instruction. False if the process has ended.
  bool step() {
    ptrace(PTRACE_SINGLESTEP, pid_, nullptr, nullptr);
    return wait();
  }
  int status() const { return status_; }

 private:
  static constexpr int kNotPermitted = 77;
  bool wait() {
    waitpid(pid_, &status_, 0);
    ended_ = !WIFSTOPPED(status_);
    return !ended_;
  }

  pid_t pid_;
  int status_ = 0;
  bool ended_ = false;
};

constexpr const char* kTooMany = "a sanitizer's code has too many instructions to stop at each";

// Calls look() with the shard's memory as a kill between two instructions of the update can leave it, for each of these
// states once. False if this system permits no tracing.
bool for_each_kill(Shard& shard, const Places& places, const Update& update,
                   const std::function<void(const Places& left)>& look) {
  const ipc::Mapping board = whole(*places.board), state = whole(*places.state);
  Stepped stepped([&] { shard.apply(update).IgnoreError(); });
  if (!stepped.begin()) return false;
  std::vector<std::byte> seen(board.size() + state.size());
  while (stepped.step()) {
    if (std::memcmp(seen.data(), board.data(), board.size()) == 0 &&
        std::memcmp(seen.data() + board.size(), state.data(), state.size()) == 0)
      continue;
    std::memcpy(seen.data(), board.data(), board.size());
    std::memcpy(seen.data() + board.size(), state.data(), state.size());
    look(places.copy());
    if (::testing::Test::HasFatalFailure()) return true;
  }
  EXPECT_TRUE(WIFEXITED(stepped.status()) && WEXITSTATUS(stepped.status()) == 0);
  return true;
}

TEST_P(KeptShardTest, MakesTheSameVersionAfterAKillAtAnyInstruction) {
  if (effort::kSanitized) GTEST_SKIP() << kTooMany;
  const Shard before = undisturbed(2), after = undisturbed(3);
  for (const int chains : {1, 8}) {
    Places places;
    Shard shard = begin(places, 1, chains);
    commit(shard, 1);
    // The next shard, which keeps nothing, would take another buffer.
    ASSERT_TRUE(shard.board().keep(Version(1)).ok());
    commit(shard, 2);
    std::vector<float> gradient;
    int unpublished = 0, published = 0;
    const bool permitted = for_each_kill(shard, places, update(3, gradient), [&](const Places& left) {
      Shard next = take_up(left, 1, chains);
      if (next.version() == Version(3)) {
        ++published;
      } else {
        ++unpublished;
        ASSERT_EQ(next.version(), Version(2));
        ASSERT_EQ(next.read(next.weights()).value(), before.read(before.weights()).value());
        commit(next, 3);
      }
      expect_equal(next, after);
    });
    if (!permitted) GTEST_SKIP() << "this system permits no tracing";
    EXPECT_GT(unpublished, 20);
    EXPECT_GT(published, 0);
  }
}

// The first piece is not finite. The next shard may find it made, and the others not.
TEST_P(KeptShardTest, RefusesAVersionThatIsNotFiniteAfterAKillAtAnyInstruction) {
  if (effort::kSanitized) GTEST_SKIP() << kTooMany;
  Places places;
  Shard shard = begin(places, 1, 1);
  commit(shard, 1);
  std::vector<float> gradient;
  const Update broken = update(2, gradient);
  gradient[0] = std::numeric_limits<float>::quiet_NaN();
  const bool permitted = for_each_kill(shard, places, broken, [&](const Places& left) {
    Shard next = take_up(left, 1, 1);
    ASSERT_TRUE(absl::IsOutOfRange(next.apply(broken)));
    ASSERT_EQ(next.version(), Version(1));
  });
  if (!permitted) GTEST_SKIP() << "this system permits no tracing";
}

INSTANTIATE_TEST_SUITE_P(Optimizers, KeptShardTest,
                         ::testing::Values(OptimizerKind::kSgd, OptimizerKind::kAdam));

// Two pieces.
class KeptStateTest : public ::testing::Test {
 protected:
  static KeptShape shape(std::int64_t floats = 2 * kSmallPiece) {
    Layout layout;
    layout.add("a", TensorKind::kParameter, {floats});
    return KeptShape::of(layout, OptimizerKind::kAdam, 1, kSmallPiece);
  }
  absl::StatusOr<KeptState::Left> take_up(std::int64_t version) const {
    return KeptState::adopt(same(state_.memory()), shape(), kIdentity)->take_up(Version(version));
  }

  // Makes the only chain's next piece.
  void step(std::int64_t version) {
    KeptState::Walk walk = state_.walk(0, Version(version));
    ASSERT_NE(walk.next(), nullptr);
    walk.made(true);
  }

  KeptState state_ = KeptState::create(shape(), kIdentity).value();
};

TEST_F(KeptStateTest, OfAnotherShardIsNotTakenUp) {
  EXPECT_TRUE(KeptState::adopt(same(state_.memory()), shape(), kIdentity).ok());
  EXPECT_FALSE(KeptState::adopt(same(state_.memory()), shape(), kIdentity + 1).ok());
  EXPECT_FALSE(KeptState::adopt(same(state_.memory()), shape(1 << 20), kIdentity).ok());
}

TEST_F(KeptStateTest, OfAnotherVersionIsNotTakenUp) {
  EXPECT_FALSE(take_up(0).ok());
  state_.start(Version(4), 2.5);
  EXPECT_EQ(take_up(4)->fractions, 2.5);
  EXPECT_FALSE(take_up(3).ok());
  EXPECT_FALSE(take_up(5).ok());
  state_.begin(Version(5), 3.5);
  for (int piece = 0; piece < 2; ++piece) step(5);
  state_.begin(Version(6), 4.5);
  step(6);
  EXPECT_FALSE(take_up(4).ok()) << "a piece has version 6";
  EXPECT_EQ(take_up(5)->fractions, 3.5);
  EXPECT_TRUE(take_up(5)->begun);
}

TEST_F(KeptStateTest, HasTheOldValuesOfAPieceThatIsNotMade) {
  state_.start(Version(0), 0);
  for (std::int64_t version = 1; version <= 5; ++version) {
    state_.begin(Version(version), static_cast<double>(version));
    KeptState::Walk walk = state_.walk(0, Version(version));
    for (int piece = 0; piece < 2; ++piece) {
      const KeptState::Place place = *walk.next();
      EXPECT_EQ(place.before[0][0], static_cast<float>(version - 1));
      for (float* const stream : place.state) stream[0] = static_cast<float>(-version);
      // The next process takes the same step.
      EXPECT_EQ(take_up(version - 1)->begun, piece > 0);
      const KeptState::Place again = *state_.walk(0, Version(version)).next();
      EXPECT_EQ(again.piece, place.piece);
      for (std::size_t i = 0; i < again.before.size(); ++i) {
        EXPECT_EQ(again.before[i], place.before[i]);
        EXPECT_EQ(again.before[i][0], static_cast<float>(version - 1));
        EXPECT_EQ(again.state[i], place.state[i]);
        again.state[i][0] = static_cast<float>(version);
      }
      walk.made(true);
    }
    EXPECT_EQ(walk.next(), nullptr);
    for (const KeptState::Place& place : state_.places())
      EXPECT_EQ(place.before[1][0], static_cast<float>(version)) << place.piece;
  }
}

TEST(KeptShape, HasAsFewPiecesWithManySmallConstantsAsWithout) {
  Layout plain, mixed;
  plain.add("a", TensorKind::kParameter, {100 * 2 * Layout::kAlignment});
  for (int i = 0; i < 100; ++i) {
    mixed.add("a" + std::to_string(i), TensorKind::kParameter, {Layout::kAlignment});
    mixed.add("c" + std::to_string(i), TensorKind::kConstant, {1});
  }
  const auto piece = 16 * Layout::kAlignment;
  const auto shape = [&](const Layout& layout) {
    return KeptShape::of(layout, OptimizerKind::kAdam, 3, piece);
  };
  EXPECT_EQ(shape(mixed).pieces.size(), shape(plain).pieces.size());
  EXPECT_EQ(shape(mixed).floats, shape(plain).floats);
  std::int64_t end = 0;
  for (const Layout::Range& one : shape(mixed).pieces) {
    EXPECT_GE(one.begin, end);
    EXPECT_LE(one.end - one.begin, piece);
    end = one.end;
  }
}

}  // namespace
}  // namespace paceline::ps
