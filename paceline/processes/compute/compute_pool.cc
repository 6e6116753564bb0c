#include "paceline/processes/compute/compute_pool.h"

#include <utility>

namespace paceline::compute {

ComputePool::ComputePool(std::vector<std::unique_ptr<engine::Engine>> engines)
    : engines_(std::move(engines)) {
  for (const auto& engine : engines_) threads_.emplace_back([this, &engine] { work(*engine); });
}

ComputePool::~ComputePool() {
  {
    const std::lock_guard lock(mutex_);
    if (stage_ == Stage::kRuns) stage_ = Stage::kEnds;
  }
  changed_.notify_all();
}

absl::Status ComputePool::end(Last last) {
  {
    const std::lock_guard lock(mutex_);
    last_ = std::move(last);
    stage_ = Stage::kEndsWithEngines;
  }
  changed_.notify_all();
  threads_.clear();
  tasks_.clear();  // destroys their promises, so that nobody waits for them
  return ended_;
}

void ComputePool::post(Task task) {
  {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
  }
  changed_.notify_one();
}

void ComputePool::share(const engine::Memory& memory) {
  for (const auto& engine : engines_) engine->share(memory);
}

void ComputePool::forget(const std::byte* base) {
  for (const auto& engine : engines_) engine->forget(base);
}

void ComputePool::work(engine::Engine& engine) {
  engine.enter_thread();
  while (true) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return stage_ != Stage::kRuns || !tasks_.empty(); });
    if (stage_ == Stage::kEnds) return;
    if (stage_ == Stage::kEndsWithEngines) {
      lock.unlock();
      absl::Status ended = last_(engine);
      ended.Update(engine.end(&engine == engines_.front().get()));
      lock.lock();
      ended_.Update(ended);
      return;
    }
    const Task task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    task(engine);
  }
}

}  // namespace paceline::compute
