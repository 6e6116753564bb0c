#include "paceline/tools/cli/pass_times.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <absl/status/status.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline::cli {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::SizeIs;

// An engine that computes nothing, and checks what it is asked for.
struct Seen {
  std::vector<std::int64_t> steps, iterations;  // samples of each
  std::int64_t passes = 0;
  absl::Status of_passes = absl::OkStatus();
};

class CheckedStage final : public engine::Stage {
 public:
  CheckedStage(const ps::Layout& layout, Seen& seen, bool first)
      : layout_(layout), seen_(seen), first_(first) {}

  const ps::Layout& layout() const override { return layout_; }
  std::vector<ps::FloatRange> floats() const override { return {}; }
  std::int64_t input_bytes(std::int64_t samples) const override { return first_ ? 0 : samples; }
  std::int64_t output_bytes(std::int64_t samples) const override { return first_ ? samples : 0; }
  absl::Status prepare(const engine::Batch&) override { return absl::OkStatus(); }
  absl::Status start(std::span<const float* const> weights, std::span<float* const>, std::int64_t samples,
                     std::int64_t, std::uint64_t, const engine::KeepGoing&) override {
    EXPECT_EQ(*weights.front(), 0.5f);
    if (first_) seen_.iterations.push_back(samples);
    return absl::OkStatus();
  }
  absl::Status receive_input(std::int64_t micro, std::span<const std::byte> message) override {
    return receive(micro, message);
  }
  absl::Status receive_gradient(std::int64_t micro, std::span<const std::byte> message) override {
    return receive(micro, message);
  }
  absl::StatusOr<std::size_t> send(std::span<std::byte> room) override {
    EXPECT_FALSE(room.empty());
    room[0] = static_cast<std::byte>(passed_);
    return 1;
  }
  absl::StatusOr<double> forward(std::int64_t micro, const engine::KeepGoing&) override {
    if (!first_) {
      EXPECT_EQ(received_, micro);
    }
    passed_ = micro;
    seen_.passes += 1;
    if (!seen_.of_passes.ok()) return seen_.of_passes;
    return 1.0;
  }
  absl::Status backward(std::int64_t micro, const engine::KeepGoing&) override {
    if (first_) {
      EXPECT_EQ(received_, micro);
    }
    passed_ = micro;
    seen_.passes += 1;
    return absl::OkStatus();
  }

 private:
  absl::Status receive(std::int64_t micro, std::span<const std::byte> message) {
    EXPECT_THAT(message, SizeIs(1));
    EXPECT_EQ(message[0], static_cast<std::byte>(micro));
    received_ = micro;
    return absl::OkStatus();
  }

  const ps::Layout& layout_;
  Seen& seen_;
  const bool first_;
  std::int64_t received_ = -1, passed_ = -1;
};

class CheckedEngine final : public engine::Engine {
 public:
  explicit CheckedEngine(std::int32_t samples, std::int64_t prefetch = 0)
      : samples_(samples), prefetch_(prefetch) {
    layout_.add("weight", ps::TensorKind::kParameter, {4});
  }

  const ps::Layout& layout() const override { return layout_; }
  std::int32_t samples() const override { return samples_; }
  std::int64_t units() const override { return 3; }
  std::int64_t prefetch() const override { return prefetch_; }
  void expect(std::span<const engine::Batch> batches) override { expected_ = batches.front().samples; }
  absl::Status initial_weights(std::span<float> out) override {
    std::fill(out.begin(), out.end(), 0.5f);
    return absl::OkStatus();
  }
  void share(const engine::Memory& memory) override { shared_.insert(memory.base); }
  void forget(const std::byte* base) override { EXPECT_EQ(shared_.erase(base), 1u); }
  absl::Status prepare(const engine::Batch& batch) override {
    if (prefetch_ > 0) {
      EXPECT_EQ(batch.samples, expected_);
    }
    for (const std::int32_t sample : batch.samples) EXPECT_TRUE(0 <= sample && sample < samples_);
    prepared_ = std::ssize(batch.samples);
    return absl::OkStatus();
  }
  absl::StatusOr<engine::StepResult> step(const engine::Weights&, std::span<float* const>, std::int64_t,
                                          const engine::KeepGoing&) override {
    seen.steps.push_back(prepared_);
    return engine::StepResult{};
  }
  absl::StatusOr<engine::Evaluation> evaluate(std::span<const float* const>, std::int64_t,
                                              const engine::KeepGoing&) override {
    return engine::Evaluation{};
  }
  absl::StatusOr<std::unique_ptr<engine::Stage>> make_stage(std::int64_t begin, std::int64_t end) override {
    EXPECT_TRUE((begin == 0 && end == 2) || (begin == 2 && end == 3));
    return std::make_unique<CheckedStage>(layout_, seen, begin == 0);
  }
  bool shares_nothing() const { return shared_.empty(); }

  Seen seen;

 private:
  const std::int32_t samples_;
  const std::int64_t prefetch_;
  ps::Layout layout_;
  std::set<const std::byte*> shared_;
  std::vector<std::int32_t> expected_;
  std::int64_t prepared_ = 0;
};

TEST(PassTimes, AreOfEachSizeInStepsAndInTwoStages) {
  CheckedEngine engine(1000);
  const auto times = measure_passes(engine, {4, 8}, 2);
  ASSERT_TRUE(times.ok()) << times.status();
  EXPECT_THAT(times->step_ms, SizeIs(2));
  EXPECT_THAT(times->stages_ms, SizeIs(2));
  EXPECT_EQ(std::set(engine.seen.steps.begin(), engine.seen.steps.end()),
            (std::set<std::int64_t>{8, 16, 24, 48}));
  EXPECT_EQ(std::set(engine.seen.iterations.begin(), engine.seen.iterations.end()),
            (std::set<std::int64_t>{16, 32}));
  EXPECT_EQ(engine.seen.passes, 4 * 4 * std::ssize(engine.seen.iterations));
  EXPECT_TRUE(engine.shares_nothing());
}

TEST(PassTimes, AreThoseOfFewerMicroBatchesIfThereAreFewSamples) {
  CheckedEngine engine(9);
  const auto times = measure_passes(engine, {4}, 2);
  ASSERT_TRUE(times.ok()) << times.status();
  EXPECT_THAT(std::set(engine.seen.steps.begin(), engine.seen.steps.end()), ElementsAre(8, 9));
  EXPECT_THAT(engine.seen.iterations, Each(9));
  CheckedEngine small(2);
  ASSERT_TRUE(measure_passes(small, {4}, 2).ok());
  EXPECT_THAT(small.seen.steps, Each(2));
}

TEST(PassTimes, TellTheEngineWhatComesNext) {
  CheckedEngine engine(100, 2);
  EXPECT_TRUE(measure_passes(engine, {2}, 2).ok());
}

TEST(PassTimes, EndWithTheErrorOfAPass) {
  CheckedEngine engine(100);
  engine.seen.of_passes = absl::FailedPreconditionError("the program ended");
  EXPECT_EQ(measure_passes(engine, {2}, 2).status(), engine.seen.of_passes);
  EXPECT_TRUE(engine.shares_nothing());
}

}  // namespace
}  // namespace paceline::cli
