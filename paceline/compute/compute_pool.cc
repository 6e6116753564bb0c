#include "paceline/compute/compute_pool.h"

#include <utility>

namespace paceline::compute {

ComputePool::ComputePool(std::vector<std::unique_ptr<engine::Engine>> engines)
    : engines_(std::move(engines)) {
  for (const auto& engine : engines_) threads_.emplace_back([this, &engine] { work(*engine); });
}

ComputePool::~ComputePool() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
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

void ComputePool::work(engine::Engine& engine) {
  engine.enter_thread();
  while (true) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return ending_ || !tasks_.empty(); });
    if (ending_) return;
    const Task task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    task(engine);
  }
}

}  // namespace paceline::compute
