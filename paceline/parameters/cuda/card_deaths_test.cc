// A shard on a card whose process is killed goes on in another process as if nothing had happened, wherever the first one
// was in an update. Each process of a card is a child here, because a fork does not have the card of its parent.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "paceline/base/testing/child_process.h"
#include "paceline/base/testing/effort.h"
#include "paceline/parameters/cuda/card_buffers.h"
#include "paceline/parameters/cuda/card_stepper.h"
#include "paceline/parameters/cuda/pieces.h"
#include "paceline/parameters/ps/look_ahead.h"
#include "paceline/parameters/ps/shard.h"
#include "paceline/transport/ipc/descriptor_keep.h"

namespace paceline::cuda {
namespace {

using ps::OptimizerKind;
using ps::TensorKind;

constexpr std::uint64_t kIdentity = 5;

// The driver with calls that are counted: the process is killed at one of them, once all work before it is done.
struct Counted {
  static inline decltype(Driver::launch) launch;
  static inline decltype(Driver::set_words) set_words;
  static inline decltype(Driver::stream_synchronize) synchronize;
  static inline int calls_left = 0;  // 0: for ever

  static void count(Stream stream) {
    if (calls_left == 0 || --calls_left > 0) return;
    synchronize(stream);
    kill(getpid(), SIGKILL);
  }
};

std::shared_ptr<Card> open_card() {
  const std::string named = Driver::library_of_environment();
  const auto driver = Driver::load(named.empty() ? PACELINE_STAND_IN_DRIVER : named);
  if (!driver.ok()) abort();
  auto counted = std::make_shared<Driver>(**driver);
  Counted::launch = counted->launch;
  Counted::set_words = counted->set_words;
  Counted::synchronize = counted->stream_synchronize;
  counted->launch = [](Function function, unsigned x, unsigned y, unsigned z, unsigned bx, unsigned by,
                       unsigned bz, unsigned shared, Stream stream, void** arguments, void** extra) {
    Counted::count(stream);
    return Counted::launch(function, x, y, z, bx, by, bz, shared, stream, arguments, extra);
  };
  counted->set_words = [](DevicePointer at, std::uint32_t value, std::size_t count, Stream stream) {
    Counted::count(stream);
    return Counted::set_words(at, value, count, stream);
  };
  return Card::open(counted, Card::all(**driver).value().front()).value();
}

// Keeps the descriptors of a shard in the keep of the test's process.
class KeepingRegistry final : public PieceRegistry {
 public:
  explicit KeepingRegistry(ipc::DescriptorKeep& keep) : keep_(keep) {
    auto found = keep.look();
    for (std::size_t i = 0; found && i < found->descriptors.size(); ++i) {
      const std::size_t end = found->text.find('\n');
      pieces_.emplace(found->text.substr(0, end), std::move(found->descriptors[i]));
      found->text.erase(0, end + 1);
    }
  }
  void put(const std::string& name, FileDescriptor descriptor, std::size_t) override {
    pieces_.insert_or_assign(name, std::move(descriptor));
    std::string names;
    std::vector<int> numbers;
    for (const auto& [one, piece] : pieces_) {
      names += one + "\n";
      numbers.push_back(piece.get());
    }
    ASSERT_TRUE(keep_.keep(names, numbers).ok());
  }
  void remove(const std::string&) override {}
  std::optional<FileDescriptor> left(const std::string& name) override {
    const auto found = pieces_.find(name);
    if (found == pieces_.end()) return std::nullopt;
    return FileDescriptor(dup(found->second.get()));
  }
  ipc::SharedMemory memory(const std::string& name) { return ipc::SharedMemory::adopt(*left(name)).value(); }

 private:
  ipc::DescriptorKeep& keep_;
  std::map<std::string, FileDescriptor> pieces_;
};

struct Subject {
  ps::Layout layout;
  OptimizerKind kind;
  std::int64_t chunk_floats;
};

Subject small(OptimizerKind kind) {
  Subject subject{.layout = {}, .kind = kind, .chunk_floats = 5000};
  subject.layout.add("a", TensorKind::kParameter, {70, 91});
  subject.layout.add("c", TensorKind::kConstant, {500});
  subject.layout.add("s", TensorKind::kStatistic, {91});
  subject.layout.add("b", TensorKind::kParameter, {91, 57});
  return subject;
}

std::vector<float> numbers_for(const ps::Layout& layout, std::int64_t seed) {
  std::mt19937 random(static_cast<unsigned>(seed));
  std::normal_distribution<float> normal;
  std::vector<float> floats(static_cast<std::size_t>(layout.size()));
  for (const ps::TensorSpec& tensor : layout.tensors()) {
    for (std::int64_t i = tensor.offset; i < tensor.offset + tensor.size; ++i)
      floats[static_cast<std::size_t>(i)] = normal(random);
  }
  return floats;
}

// A process's shard on the card.
class OnCard {
 public:
  // `keep`: the shard is kept there, or taken up if it is there; null: it ends with this.
  OnCard(const Subject& subject, ipc::DescriptorKeep* keep) : layout_(subject.layout), card_(open_card()) {
    if (keep != nullptr) registry_ = std::make_unique<KeepingRegistry>(*keep);
    const ps::OptimizerConfig optimizer{.kind = subject.kind, .weight_decay = 0.01};
    auto plan = std::make_unique<const ps::StepPlan>(ps::StepPlan::of(layout_, optimizer, {}));
    const std::int64_t floats = ps::Shard::board_floats(layout_, ps::has_direction(subject.kind));
    const bool is_left = registry_ != nullptr && registry_->left("board");
    std::optional<CardStepper::Kept> kept;
    if (registry_ != nullptr)
      kept.emplace(CardStepper::Kept{.identity = kIdentity, .chunk_floats = subject.chunk_floats});
    if (is_left) {
      const auto pieces = pieces_of(plan->passes, 0, layout_.size());
      const auto shape = CardStateShape::in_slots(pieces, layout_.size(), ps::state_streams(subject.kind),
                                                  subject.chunk_floats);
      kept->left.emplace(
          CardState::Left{registry_->memory("state"),
                          CardMemory::import(card_, *registry_->left("card"), shape.bytes()).value()});
    }
    auto stepper = CardStepper::create(card_, *plan, std::move(kept)).value();
    if (registry_ != nullptr && !is_left) {
      registry_->put("card", stepper->state_memory().memory().descriptor().value(), 0);
      registry_->put("state", FileDescriptor(dup(stepper->state_memory().page()->descriptor())), 0);
    }
    PieceRegistry& registry = registry_ != nullptr ? static_cast<PieceRegistry&>(*registry_) : nobody_;
    auto buffers = std::make_unique<CardBuffers>(card_, registry, "buffer", floats);
    auto board =
        is_left ? memory::WeightWriter::adopt(registry_->memory("board"), floats, 1, 1, std::move(buffers))
                : memory::WeightWriter::create(floats, 1, 1, std::move(buffers));
    if (registry_ != nullptr && !is_left)
      registry_->put("board", FileDescriptor(dup(board.value().memory().descriptor())), 0);
    shard_ = std::make_unique<ps::Shard>(std::move(plan), std::move(board).value(), std::move(stepper));
    const absl::Status begun =
        is_left ? shard_->take_up() : shard_->start(Version(0), numbers_for(layout_, 0));
    EXPECT_TRUE(begun.ok()) << begun;
    gradient_ = CardMemory::create(card_, static_cast<std::size_t>(layout_.size()) * sizeof(float)).value();
  }

  void apply_next() {
    const absl::Status applied = try_next(numbers_for(layout_, shard_->version().next().value()));
    ASSERT_TRUE(applied.ok()) << applied;
  }
  absl::Status try_next(const std::vector<float>& gradient) {
    const CardStream stream = CardStream::create(card_).value();
    const Version version = shard_->version().next();
    EXPECT_TRUE(stream.upload(gradient_.address(), gradient.data(), gradient.size() * sizeof(float)).ok());
    return shard_->apply({.version = version,
                          .members = {{gradient_.as<float>(), 1, 1}},
                          .learning_rate = 0.1,
                          .fraction = version.value() % 2 == 0 ? 1.0 : 0.5,
                          .only_finite = true});
  }
  ps::Shard& shard() { return *shard_; }

 private:
  class Nobody final : public PieceRegistry {
   public:
    void put(const std::string&, FileDescriptor, std::size_t) override {}
    void remove(const std::string&) override {}
    std::optional<FileDescriptor> left(const std::string&) override { return std::nullopt; }
  };

  const ps::Layout layout_;
  const std::shared_ptr<Card> card_;
  Nobody nobody_;
  std::unique_ptr<KeepingRegistry> registry_;
  std::unique_ptr<ps::Shard> shard_;
  CardMemory gradient_;
};

constexpr int kGood = 0, kBad = 1, kNotKilled = 2;

// The exit status of a child that does this, or minus the signal that ended it.
int in_child(const std::function<int()>& work) {
  const pid_t child = fork();
  if (child == 0) {
    const int status = work();
    _exit(::testing::Test::HasFailure() ? kBad : status);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

// Kills a child that applies updates, so long after its first one: a real card takes longer to begin than for many updates.
void kill_in_updates(const Subject& subject, ipc::DescriptorKeep& keep, useconds_t after_us) {
  paceline::testing::ChildProcess child([&](const auto& parent) {
    OnCard next(subject, &keep);
    next.apply_next();
    parent.say(::testing::Test::HasFailure() ? "failed" : "begun");
    while (!::testing::Test::HasFailure()) next.apply_next();
    return kBad;
  });
  EXPECT_EQ(child.hear(), "begun");
  usleep(after_us);
  child.kill();
}

// Takes the shard up, makes at least one version and all up to `to`, and compares it with a shard that nobody disturbed.
int go_on_and_compare(const Subject& subject, ipc::DescriptorKeep& keep, std::int64_t to) {
  OnCard again(subject, &keep), undisturbed(subject, nullptr);
  do again.apply_next();
  while (again.shard().version() < Version(to) && !::testing::Test::HasFailure());
  while (undisturbed.shard().version() < again.shard().version()) undisturbed.apply_next();
  EXPECT_EQ(again.shard().read(again.shard().board().latest()).value(),
            undisturbed.shard().read(undisturbed.shard().board().latest()).value());
  const ps::OptimizerState state = again.shard().read_state().value();
  const ps::OptimizerState expected = undisturbed.shard().read_state().value();
  EXPECT_EQ(state.streams, expected.streams);
  EXPECT_EQ(state.fractions, expected.fractions);
  return kGood;
}

TEST(CardDeaths, TheNextProcessGoesOnWhereverAnUpdateWasCut) {
  for (const OptimizerKind kind : ps::kEveryOptimizer) {
    if (ps::is_tensorwise(kind)) continue;
    const Subject subject = small(kind);
    int deaths = 0;
    // The optimizers differ in their kernels alone.
    const bool everywhere = kind == OptimizerKind::kSgd || kind == OptimizerKind::kAdamW;
    for (int call = everywhere ? 1 : 7; call < (everywhere ? 100 : 9); ++call) {
      SCOPED_TRACE(fmt::format("optimizer {}, killed at call {}", static_cast<int>(kind), call));
      ipc::DescriptorKeep keep = ipc::DescriptorKeep::open().value();
      const int ended = in_child([&] {
        OnCard first(subject, &keep);
        for (int i = 0; i < 2; ++i) first.apply_next();
        Counted::calls_left = call;
        for (int i = 0; i < 2; ++i) first.apply_next();
        return kNotKilled;
      });
      if (ended == kNotKilled) break;
      ASSERT_EQ(ended, -SIGKILL);
      ++deaths;
      // The second one dies too, at another call.
      if (call % 2 == 0) {
        in_child([&] {
          OnCard second(subject, &keep);
          Counted::calls_left = 1 + call % 5;
          for (int i = 0; i < 2; ++i) second.apply_next();
          return kNotKilled;
        });
      }
      ASSERT_EQ(in_child([&] { return go_on_and_compare(subject, keep, 6); }), kGood);
    }
    EXPECT_GE(deaths, everywhere ? 14 : 2)
        << "two updates of three chunks, each with a launch and a word, and the marks";
  }
}

// Kernels are cut too.
TEST(CardDeaths, TheNextProcessGoesOnWhenTheFirstIsKilledAtAnyTime) {
  Subject subject = small(OptimizerKind::kAdamW);
  subject.layout.add("large", TensorKind::kParameter, {600, 1000});
  subject.chunk_floats = 100'000;
  std::mt19937 random(11);
  constexpr int kRounds = effort::kSanitized ? 4 : 12;
  for (int round = 0; round < kRounds; ++round) {
    SCOPED_TRACE(round);
    ipc::DescriptorKeep keep = ipc::DescriptorKeep::open().value();
    // The first versions are there.
    ASSERT_EQ(in_child([&] {
                OnCard first(subject, &keep);
                first.apply_next();
                return kGood;
              }),
              kGood);
    for (int deaths = 0; deaths < 3; ++deaths)
      kill_in_updates(subject, keep, static_cast<useconds_t>(random() % 20'000));
    ASSERT_EQ(in_child([&] { return go_on_and_compare(subject, keep, 0); }), kGood);
  }
}

// The process is killed after the chunk that was not finite was counted.
TEST(CardDeaths, AVersionThatIsNotFiniteStaysSo) {
  const Subject subject = small(OptimizerKind::kSgd);
  ipc::DescriptorKeep keep = ipc::DescriptorKeep::open().value();
  std::vector<float> gradient = numbers_for(subject.layout, 1);
  gradient[0] = std::numeric_limits<float>::infinity();
  constexpr int kMarksAndTwoChunks = 5;
  ASSERT_EQ(in_child([&] {
              OnCard first(subject, &keep);
              Counted::calls_left = kMarksAndTwoChunks;
              static_cast<void>(first.try_next(gradient));
              return kNotKilled;
            }),
            -SIGKILL);
  EXPECT_EQ(in_child([&] {
              OnCard again(subject, &keep);
              EXPECT_EQ(again.try_next(gradient).code(), absl::StatusCode::kOutOfRange);
              return kGood;
            }),
            kGood);
}

TEST(CardDeaths, AWordOfACardCountsBeyondItsBits) {
  for (const std::int64_t count :
       {std::int64_t{0}, std::int64_t{7}, (std::int64_t{1} << 32) - 1, std::int64_t{5} << 32})
    for (const std::int64_t behind : {-33, -1, 0, 1, 33})
      EXPECT_EQ(counted_near(count - behind, static_cast<std::uint32_t>(count)), count) << behind;
}

TEST(CardDeaths, AStateOfAnotherShardIsNotTakenUp) {
  const Subject subject = small(OptimizerKind::kAdam);
  Subject larger = subject;
  larger.layout.add("large", TensorKind::kParameter, {1000, 1000});
  ipc::DescriptorKeep keep = ipc::DescriptorKeep::open().value();
  const int ended = in_child([&] {
    OnCard first(subject, &keep);
    const auto card = open_card();
    const CardStream stream = CardStream::create(card).value();
    KeepingRegistry registry(keep);
    const auto adopt = [&](const Subject& of, std::uint64_t identity) {
      const auto plan = ps::StepPlan::of(of.layout, {.kind = of.kind}, {});
      auto shape = CardStateShape::in_slots(pieces_of(plan.passes, 0, of.layout.size()), of.layout.size(), 2,
                                            of.chunk_floats);
      CardMemory memory = CardMemory::import(card, *registry.left("card"), 1).value();
      return CardState::adopt(stream, std::move(shape), identity,
                              {registry.memory("state"), std::move(memory)})
          .status();
    };
    EXPECT_TRUE(adopt(subject, kIdentity).ok());
    EXPECT_EQ(adopt(subject, kIdentity + 1).code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(adopt(larger, kIdentity).code(), absl::StatusCode::kInvalidArgument);
    return kGood;
  });
  EXPECT_EQ(ended, kGood);
}

}  // namespace
}  // namespace paceline::cuda
