// Tests of shards in a card's memory, against shards in the host's: on a real card if PACELINE_CUDA_DRIVER is
// empty or unset and there is one, else with the stand-in that the build names.
#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <optional>
#include <random>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/base/testing/effort.h"
#include "paceline/parameters/cuda/card_buffers.h"
#include "paceline/parameters/cuda/card_stepper.h"
#include "paceline/parameters/ps/fused_update.h"
#include "paceline/parameters/ps/look_ahead.h"
#include "paceline/parameters/ps/shard.h"
#include "paceline/parameters/ps/testing/every_optimizer.h"
#include "paceline/transport/ipc/descriptor_service.h"

namespace paceline::cuda {
namespace {

using ps::OptimizerKind;
using ps::TensorKind;

// The driver with calls that are counted: those that ask for a part of the card's memory.
struct Asked {
  static inline decltype(Driver::memory_create) memory_create;
  static inline decltype(Driver::module_function) module_function;
  static inline int count = 0;

  static std::shared_ptr<const Driver> counted(const Driver& driver) {
    auto counted = std::make_shared<Driver>(driver);
    memory_create = counted->memory_create;
    module_function = counted->module_function;
    counted->memory_create = [](AllocationHandle* handle, std::size_t bytes,
                                const AllocationProperties* properties, unsigned long long flags) {
      ++count;
      return memory_create(handle, bytes, properties, flags);
    };
    counted->module_function = [](Function* function, Module module, const char* name) {
      ++count;
      return module_function(function, module, name);
    };
    return counted;
  }
};

std::shared_ptr<Card> first_card() {
  static const std::shared_ptr<Card> card = [] {
    const std::string named = Driver::library_of_environment();
    auto driver = Driver::load(named.empty() ? PACELINE_STAND_IN_DRIVER : named);
    EXPECT_TRUE(driver.ok()) << driver.status();
    const auto all = Card::all(**driver);
    EXPECT_TRUE(all.ok() && !all->empty());
    auto opened = Card::open(Asked::counted(**driver), all->front());
    EXPECT_TRUE(opened.ok()) << opened.status();
    return *std::move(opened);
  }();
  return card;
}

// Gives each piece to those who ask, and has none of an earlier process.
class ServiceRegistry final : public PieceRegistry {
 public:
  void put(const std::string& name, FileDescriptor descriptor, std::size_t bytes) override {
    service->put(name, std::move(descriptor), bytes);
  }
  void remove(const std::string& name) override { service->remove(name); }
  std::optional<FileDescriptor> left(const std::string&) override { return std::nullopt; }

  const std::unique_ptr<ipc::DescriptorService> service = ipc::DescriptorService::start().value();
};

ps::Layout some_layout(bool with_constants) {
  ps::Layout layout;
  layout.add("first.weight", TensorKind::kParameter, {70, 91});
  layout.add("first.bias", TensorKind::kParameter, {91});
  if (with_constants) layout.add("table", TensorKind::kConstant, {1000});
  layout.add("norm.mean", TensorKind::kStatistic, {91});
  layout.add("norm.variance", TensorKind::kStatistic, {91});
  layout.add("second.weight", TensorKind::kParameter, {91, 113});
  if (with_constants) layout.add("mask", TensorKind::kConstant, {3});
  layout.add("second.bias", TensorKind::kParameter, {1});
  return layout;
}

// Tensors that begin with narrow ones (ps/bfloat16.h).
ps::Layout narrow_layout(bool others) {
  ps::Layout layout;
  layout.add("first.weight", TensorKind::kParameter, {70, 91}, ps::Dtype::kBfloat16);
  layout.add("first.bias", TensorKind::kParameter, {91}, ps::Dtype::kBfloat16);
  if (others) {
    layout.add("norm.weight", TensorKind::kParameter, {5003});
    layout.add("table", TensorKind::kConstant, {100});
    layout.add("norm.mean", TensorKind::kStatistic, {91});
  }
  layout.set_narrow(layout.leading_bfloat16());
  return layout;
}

// Random numbers in the tensors, and zeros in the padding.
std::vector<float> random_floats(const ps::Layout& layout, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> floats(static_cast<std::size_t>(layout.size()));
  for (const ps::TensorSpec& tensor : layout.tensors()) {
    for (std::int64_t i = tensor.offset; i < tensor.offset + tensor.size; ++i)
      floats[static_cast<std::size_t>(i)] = normal(random);
  }
  return floats;
}

std::vector<float> random_gradient(const ps::Layout& layout, unsigned seed) {
  std::vector<float> floats = random_floats(layout, seed);
  std::vector<ps::Bfloat16> narrow(static_cast<std::size_t>(layout.narrow()));
  ps::narrow_copy(floats.data(), narrow.data(), layout.narrow());
  if (!narrow.empty()) std::memcpy(floats.data(), narrow.data(), narrow.size() * sizeof(ps::Bfloat16));
  return floats;
}

enum class State { kInPlace, kInSlots };

// One shard in the host's memory and one on the card, which are told the same.
class Pair {
 public:
  Pair(const ps::Layout& layout, const ps::OptimizerConfig& optimizer, bool look_ahead = false,
       const std::vector<ps::ParameterGroup>& groups = {}, int kept = 2, State state = State::kInPlace)
      : layout_(layout),
        gradients_(first_card(), registry_, "gradient",
                   ps::card_gradient_floats(layout.size(), layout.narrow())),
        stream_(CardStream::create(first_card()).value()),
        host_(layout, optimizer,
              memory::WeightWriter::create(ps::Shard::board_floats(layout, look_ahead), 1, kept).value(), 2,
              groups),
        card_(on_card(layout, optimizer, look_ahead, groups, kept, state)) {}

  void start(Version version, const std::vector<float>& weights) {
    ASSERT_TRUE(host_.start(version, weights).ok());
    const absl::Status started = card_.start(version, weights);
    ASSERT_TRUE(started.ok()) << started;
  }

  // Both apply the same commit.
  void apply(ps::Update update, const std::vector<std::vector<float>>& gradients) {
    ps::Update here = update, there = update;
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      const double weight = 1.0 / static_cast<double>(gradients.size() + i);
      const double share = 1.0 / static_cast<double>(gradients.size());
      const float* const own = gradients[i].data();
      here.members.push_back({own, weight, share, ps::narrow_part(own)});
      float* const slot = gradients_.at(static_cast<int>(i)).value();
      const ps::GradientPlace place = ps::card_gradient(slot, layout_.narrow());
      const auto narrow = static_cast<std::size_t>(layout_.narrow());
      upload(place.narrow, ps::narrow_part(own), narrow * sizeof(ps::Bfloat16));
      upload(place.wide + narrow, own + narrow, (gradients[i].size() - narrow) * sizeof(float));
      there.members.push_back({place.wide, weight, share, place.narrow});
    }
    const absl::Status on_host = host_.apply(here);
    const int asked_at_start = Asked::count;
    const absl::Status on_card = card_.apply(there);
    ASSERT_EQ(Asked::count, asked_at_start) << "a commit asks for memory of a card that may be full";
    ASSERT_EQ(on_host, on_card);
    ASSERT_EQ(host_.finite(), card_.finite());
  }

  void expect_equal() {
    ASSERT_EQ(host_.version(), card_.version());
    expect_same(host_.read(host_.board().latest()).value(), card_.read(card_.board().latest()).value(),
                "buffer");
    const ps::OptimizerState here = host_.read_state().value(), there = card_.read_state().value();
    ASSERT_EQ(here.fractions, there.fractions);
    ASSERT_EQ(here.streams.size(), there.streams.size());
    for (std::size_t i = 0; i < here.streams.size(); ++i)
      expect_same(here.streams[i], there.streams[i], "state");
  }

  ps::Shard& host() { return host_; }
  ps::Shard& card() { return card_; }
  const ps::Layout& layout() const { return layout_; }

 private:
  static void expect_same(const std::vector<float>& here, const std::vector<float>& there, const char* what) {
    ASSERT_EQ(here.size(), there.size());
    for (std::size_t i = 0; i < here.size(); ++i) {
      // A NaN may have other bits on a card.
      if (std::isnan(here[i]) && std::isnan(there[i])) continue;
      ASSERT_EQ(std::bit_cast<std::uint32_t>(here[i]), std::bit_cast<std::uint32_t>(there[i]))
          << what << ", float " << i << ": " << here[i] << " and " << there[i];
    }
  }

  void upload(const void* to, const void* from, std::size_t bytes) {
    if (bytes > 0) ASSERT_TRUE(stream_.upload(reinterpret_cast<DevicePointer>(to), from, bytes).ok());
  }

  ps::Shard on_card(const ps::Layout& layout, const ps::OptimizerConfig& optimizer, bool look_ahead,
                    const std::vector<ps::ParameterGroup>& groups, int kept, State state) {
    const std::int64_t floats = ps::Shard::board_floats(layout, look_ahead);
    auto board = memory::WeightWriter::create(
        floats, 1, kept, std::make_unique<CardBuffers>(first_card(), registry_, "board/0", floats));
    EXPECT_TRUE(board.ok() && board->reserve(3).ok());
    auto plan = std::make_unique<const ps::StepPlan>(ps::StepPlan::of(layout, optimizer, groups));
    std::optional<CardStepper::Kept> slots;
    // A few chunks.
    if (state == State::kInSlots) slots.emplace(CardStepper::Kept{.identity = 1, .chunk_floats = 6000});
    auto stepper = CardStepper::create(first_card(), *plan, std::move(slots));
    EXPECT_TRUE(stepper.ok()) << stepper.status();
    return ps::Shard(std::move(plan), std::move(board).value(), *std::move(stepper));
  }

  const ps::Layout layout_;
  ServiceRegistry registry_;
  CardBuffers gradients_;
  CardStream stream_;
  ps::Shard host_;
  ps::Shard card_;
};

void train(Pair& pair, int commits, unsigned seed) {
  std::mt19937 random(seed);
  for (int i = 0; i < commits && !testing::Test::HasFatalFailure(); ++i) {
    ps::Update update{.version = pair.host().version().next(), .members = {}};
    update.learning_rate = 0.01 * (1 + i);
    update.fraction = i % 3 == 0 ? 1.0 : 0.25;
    std::vector<std::vector<float>> gradients;
    for (unsigned member = 0; member < 1 + random() % 5; ++member)
      gradients.push_back(random_gradient(pair.layout(), static_cast<unsigned>(random())));
    pair.apply(update, gradients);
    pair.expect_equal();
  }
}

// Enough for whole and partial commits.
constexpr int kCommits = effort::kSanitized ? 3 : 7;

TEST(CardShard, HasTheHostsBytesUnderEveryOptimizer) {
  for (const ps::OptimizerConfig& optimizer : ps::testing::every_optimizer()) {
    const OptimizerKind kind = optimizer.kind;
    for (const bool look_ahead : {false, true}) {
      for (const State state : {State::kInPlace, State::kInSlots}) {
        if (look_ahead && !ps::has_direction(kind)) continue;
        if (state == State::kInSlots && ps::is_tensorwise(kind)) continue;
        SCOPED_TRACE(fmt::format("{} {} {}", static_cast<int>(kind), look_ahead, static_cast<int>(state)));
        Pair pair(some_layout(true), optimizer, look_ahead, {}, 2, state);
        pair.start(Version(0), random_floats(pair.layout(), 1));
        pair.expect_equal();
        train(pair, kCommits, 3);
      }
    }
  }
}

TEST(CardShard, HasTheHostsBytesOfNarrowTensors) {
  for (ps::OptimizerConfig optimizer : ps::testing::elementwise_optimizers()) {
    const OptimizerKind kind = optimizer.kind;
    for (const bool others : {false, true}) {
      for (const State state : {State::kInPlace, State::kInSlots}) {
        for (const double clip : {0.0, 1.0}) {
          const bool look_ahead = clip == 0 && others && ps::has_direction(kind);
          SCOPED_TRACE(
              fmt::format("{} {} {} {}", static_cast<int>(kind), others, static_cast<int>(state), clip));
          optimizer.clip = clip;
          Pair pair(narrow_layout(others), optimizer, look_ahead, {}, 2, state);
          pair.start(Version(0), random_floats(pair.layout(), 1));
          pair.expect_equal();
          train(pair, kCommits, 3);
        }
      }
    }
  }
}

TEST(CardShard, HasTheHostsBytesIfTheNormIsClipped) {
  for (const OptimizerKind kind : {OptimizerKind::kAdamW, OptimizerKind::kLamb}) {
    for (const double clip : {0.5, 1e6}) {
      Pair pair(some_layout(true), {.kind = kind, .clip = clip});
      pair.start(Version(0), random_floats(pair.layout(), 1));
      train(pair, 5, 4);
    }
  }
}

TEST(CardShard, HasTheHostsBytesWithGroupsOfParameters) {
  const std::vector<ps::ParameterGroup> groups{
      {.tensors = {"first.bias", "second.bias"}, .weight_decay = 0.0},
      {.tensors = {"second.weight"}, .rate = 0.1}};
  Pair pair(some_layout(false), {.kind = OptimizerKind::kAdamW, .weight_decay = 0.1}, true, groups);
  pair.start(Version(0), random_floats(pair.layout(), 1));
  train(pair, 5, 5);
}

TEST(CardShard, HasTheHostsBytesForDifferencesOfLocalSteps) {
  Pair pair(some_layout(true), {.kind = OptimizerKind::kSgd});
  pair.start(Version(0), random_floats(pair.layout(), 1));
  pair.apply({.version = Version(1), .members = {}, .learning_rate = 0.1, .of_differences = true},
             {random_floats(pair.layout(), 2), random_floats(pair.layout(), 3)});
  pair.expect_equal();
}

TEST(CardShard, FindsWhatIsNotFinite) {
  for (const float wrong : {NAN, INFINITY, -INFINITY}) {
    Pair pair(some_layout(true), {.kind = OptimizerKind::kAdam});
    pair.start(Version(0), random_floats(pair.layout(), 1));
    std::vector<float> gradient = random_floats(pair.layout(), 2);
    gradient[100] = wrong;
    pair.apply({.version = Version(1), .members = {}, .learning_rate = 0.1, .only_finite = true}, {gradient});
    EXPECT_FALSE(pair.card().finite());
    EXPECT_EQ(pair.card().version(), Version(0));
  }
}

TEST(CardShard, KeepsAVersionWhileOthersAreMade) {
  Pair pair(some_layout(true), {.kind = OptimizerKind::kSgd});
  pair.start(Version(0), random_floats(pair.layout(), 1));
  train(pair, 2, 6);
  ASSERT_TRUE(pair.card().board().keep(Version(2)).ok());
  const std::vector<float> before = pair.card().read(pair.card().kept_weights(Version(2))).value();
  train(pair, 6, 7);
  EXPECT_EQ(pair.card().read(pair.card().kept_weights(Version(2))).value(), before);
}

TEST(CardShard, GoesOnFromAStateThatTheHostSaved) {
  for (const auto& [kind, look_ahead] : {std::pair{OptimizerKind::kAdamW, false},
                                         {OptimizerKind::kAdamW, true},
                                         {OptimizerKind::kLars, true},
                                         {OptimizerKind::kAdafactor, false}}) {
    const State state = ps::is_tensorwise(kind) ? State::kInPlace : State::kInSlots;
    Pair first(some_layout(true), {.kind = kind}, look_ahead);
    first.start(Version(0), random_floats(first.layout(), 1));
    train(first, 3, 8);
    Pair second(some_layout(true), {.kind = kind}, look_ahead, {}, 2, state);
    ASSERT_TRUE(second.card().restore_optimizer(first.host().read_state().value()).ok());
    ASSERT_TRUE(second.host().restore_optimizer(first.card().read_state().value()).ok());
    second.start(Version(3), first.card().read(first.card().weights()).value());
    second.expect_equal();
    train(second, 3, 9);
  }
}

TEST(CardMemory, SaysWhatIsMissingIfTheCardIsFull) {
  const auto memory = CardMemory::create(first_card(), std::size_t{1} << 50);
  EXPECT_EQ(memory.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(memory.status().message()), testing::HasSubstr("MiB more are needed"));
}

TEST(CardMemory, IsTheSameForTheProcessThatImportsIt) {
  ServiceRegistry registry;
  CardBuffers buffers(first_card(), registry, "gradient", 5000);
  float* const made = buffers.at(3).value();
  const CardStream stream = CardStream::create(first_card()).value();
  const std::vector<float> numbers(5000, 1.5f);
  ASSERT_TRUE(stream.upload(reinterpret_cast<DevicePointer>(made), numbers.data(), 20000).ok());
  const FileDescriptor descriptor =
      ipc::DescriptorService::get(registry.service->address(), "gradient/3").value();
  const CardMemory imported = CardMemory::import(first_card(), descriptor, 20000).value();
  std::vector<float> read(5000);
  ASSERT_TRUE(stream.download(read.data(), imported.address(), 20000).ok());
  EXPECT_EQ(read, numbers);
  buffers.free(3);
  EXPECT_FALSE(ipc::DescriptorService::get(registry.service->address(), "gradient/3").ok());
  ASSERT_TRUE(stream.download(read.data(), imported.address(), 20000).ok());
  EXPECT_EQ(read, numbers);
}

TEST(Card, NamesAnUnknownOne) {
  const std::string named = Driver::library_of_environment();
  const auto driver = Driver::load(named.empty() ? PACELINE_STAND_IN_DRIVER : named);
  ASSERT_TRUE(driver.ok());
  EXPECT_EQ(Card::open(*driver, "GPU-none").status().code(), absl::StatusCode::kUnavailable);
}

// A process that was killed may have had the room: the server then tries again (memory_comes_back.h).
TEST(Card, AContextThatAFullCardRefusesIsALackOfMemory) {
  for (const Result refusal : {kOutOfMemory, kDeviceUnavailable}) {
    static Result answer;
    answer = refusal;
    auto full = std::make_shared<Driver>(first_card()->driver());
    full->primary_context_retain = [](Context*, Device) { return answer; };
    const absl::Status opened = Card::open(full, first_card()->uuid()).status();
    EXPECT_EQ(opened.code(), absl::StatusCode::kResourceExhausted);
    EXPECT_THAT(std::string(opened.message()), testing::HasSubstr("has no room for another process"));
  }
}

// Drivers before CUDA 11.7 lack some of these under their names of today.
TEST(Driver, NeedsNoFunctionThatOnlyProgramsCall) {
#ifdef PACELINE_SANITIZED
  GTEST_SKIP() << "a library that is compiled for sanitizers refers to all of its functions by name";
#endif
  std::ifstream file(PACELINE_STAND_IN_DRIVER, std::ios::binary);
  std::string library{std::istreambuf_iterator<char>(file), {}};
  for (const std::string name :
       {"cuStreamWaitValue32_v2", "cuStreamWriteValue32_v2", "cuMemHostRegister_v2"}) {
    ASSERT_NE(library.find(name), std::string::npos);
    for (std::size_t at = library.find(name); at != std::string::npos; at = library.find(name))
      library[at] = 'X';
  }
  const std::string older = testing::TempDir() + "older_driver.so";
  std::ofstream(older, std::ios::binary) << library;
  EXPECT_EQ(Driver::load(older).status(), absl::OkStatus());
}

TEST(Driver, SaysThatThereIsNone) {
  const auto driver = Driver::load("libnone.so.7");
  EXPECT_EQ(driver.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(driver.status().message()), testing::HasSubstr("libnone.so.7"));
}

}  // namespace
}  // namespace paceline::cuda
