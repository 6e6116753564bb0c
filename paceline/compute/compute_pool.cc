#include "paceline/compute/compute_pool.h"

#include <utility>

#include "paceline/train/threads.h"

namespace paceline::compute {

ComputePool::ComputePool(std::vector<std::unique_ptr<train::Replica>> replicas)
    : replicas_(std::move(replicas)) {
  for (const auto& replica : replicas_) threads_.emplace_back([this, &replica] { work(*replica); });
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

void ComputePool::work(train::Replica& replica) {
  // Several replicas share the processors, and one thread adds up in one order.
  train::use_threads(1);
  while (true) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return ending_ || !tasks_.empty(); });
    if (ending_) return;
    const Task task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    task(replica);
  }
}

}  // namespace paceline::compute
