#include "paceline/processes/compute/compute_pool.h"

#include <chrono>
#include <future>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace paceline::compute {
namespace {

class Idle final : public engine::Engine {
 public:
  const ps::Layout& layout() const override { return layout_; }
  std::int32_t samples() const override { return 0; }
  absl::Status initial_weights(std::span<float>) override { return absl::OkStatus(); }
  absl::Status prepare(const engine::Batch&) override { return absl::OkStatus(); }
  absl::StatusOr<engine::StepResult> step(const engine::Weights&, std::span<float* const>, std::int64_t,
                                          const engine::KeepGoing&) override {
    return engine::StepResult{};
  }
  absl::StatusOr<engine::Evaluation> evaluate(std::span<const float* const>, std::int64_t,
                                              const engine::KeepGoing&) override {
    return engine::Evaluation{};
  }

 private:
  ps::Layout layout_;
};

// Whether a pool's thread begins a task before the pool ends is a matter of luck. Among a hundred pools some end first.
TEST(ComputePool, NobodyWaitsForATaskThatAnEndedPoolHasNotBegun) {
  for (int i = 0; i < 100; ++i) {
    std::vector<std::unique_ptr<engine::Engine>> engines;
    engines.push_back(std::make_unique<Idle>());
    ComputePool pool(std::move(engines));
    const auto task = [&pool] {
      const auto result = std::make_shared<std::packaged_task<int()>>([] { return 1; });
      pool.post([result](engine::Engine&) { (*result)(); });
      return result->get_future();
    };
    const std::future<int> first = task();
    const std::future<int> second = task();
    ASSERT_TRUE(pool.end().ok());
    ASSERT_EQ(first.wait_for(std::chrono::seconds(0)), std::future_status::ready);
    ASSERT_EQ(second.wait_for(std::chrono::seconds(0)), std::future_status::ready);
  }
}

}  // namespace
}  // namespace paceline::compute
