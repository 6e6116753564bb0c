// Threads that compute gradients and evaluations of one model, each with an engine of its own. The result of
// a task depends only on its inputs, so it does not matter which thread takes it, or when.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include <absl/status/statusor.h>

#include "paceline/computing/engine/engine.h"

namespace paceline::compute {

class ComputePool {
 public:
  using Task = std::function<void(engine::Engine&)>;

  // One thread an engine. Requires: at least one.
  explicit ComputePool(std::vector<std::unique_ptr<engine::Engine>> engines);
  // Ends after the tasks under way; tasks not begun are destroyed.
  ~ComputePool();

  void post(Task task);
  // Ends the threads as ~ComputePool does, and then each engine, with which `last` is called before. No other call may
  // follow. Errors: the first engine's that has one.
  using Last = std::function<absl::Status(engine::Engine&)>;
  absl::Status end(Last last = [](engine::Engine&) { return absl::OkStatus(); });
  // With all engines.
  void share(const engine::Memory& memory);
  void forget(const std::byte* base);
  const engine::Engine& any() const { return *engines_.front(); }

 private:
  void work(engine::Engine& engine);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Task> tasks_;
  enum class Stage { kRuns, kEnds, kEndsWithEngines };
  Stage stage_ = Stage::kRuns;
  Last last_;  // set once the engines end
  absl::Status ended_;
  const std::vector<std::unique_ptr<engine::Engine>> engines_;
  std::vector<std::jthread> threads_;  // last: they use everything above
};

}  // namespace paceline::compute
