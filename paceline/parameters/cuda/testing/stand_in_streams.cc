#include "paceline/parameters/cuda/testing/stand_in_streams.h"

#include <chrono>
#include <utility>

namespace paceline::cuda::stand_in {

namespace {

constexpr int kSpins = 200;  // before a wait sleeps
constexpr std::chrono::microseconds kPause{50};

}  // namespace

void Mark::set() {
  const std::lock_guard lock(mutex_);
  set_ = true;
  changed_.notify_all();
}

bool Mark::is_set() const {
  const std::lock_guard lock(mutex_);
  return set_;
}

void Mark::wait() const {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return set_; });
}

Stream::Stream() : thread_([this] { run(); }) {}

Stream::~Stream() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Stream::add(std::function<void()> work) { put({std::move(work), nullptr, nullptr}); }

void Stream::wait_until(std::function<bool()> condition) { put({nullptr, std::move(condition), nullptr}); }

void Stream::add(std::shared_ptr<Mark> mark) { put({nullptr, nullptr, std::move(mark)}); }

void Stream::put(Item item) {
  {
    const std::lock_guard lock(mutex_);
    items_.push_back(std::move(item));
  }
  changed_.notify_all();
}

bool Stream::idle() const {
  const std::lock_guard lock(mutex_);
  return items_.empty() && !busy_;
}

void Stream::synchronize() {
  auto mark = std::make_shared<Mark>();
  add(mark);
  mark->wait();
}

void Stream::run() {
  bool lost = false;
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return ending_ || !items_.empty(); });
    if (items_.empty()) return;
    Item item = std::move(items_.front());
    items_.pop_front();
    busy_ = true;
    lock.unlock();
    if (item.work && !lost) item.work();
    if (item.condition && !lost) lost = !await(item.condition);
    lock.lock();
    busy_ = false;
    // A mark is set after the stream counts as idle: whoever has waited for it may ask then.
    if (item.mark) {
      lock.unlock();
      item.mark->set();
      lock.lock();
    }
  }
}

// False if the stream ends before the condition holds.
bool Stream::await(const std::function<bool()>& condition) {
  for (int spin = 0; !condition(); ++spin) {
    if (spin < kSpins) {
      std::this_thread::yield();
      continue;
    }
    std::this_thread::sleep_for(kPause);
    const std::lock_guard lock(mutex_);
    if (ending_ && !condition()) return false;
  }
  return true;
}

void Event::record(Stream& stream) {
  auto mark = std::make_shared<Mark>();
  stream.add(mark);
  const std::lock_guard lock(mutex_);
  mark_ = std::move(mark);
}

std::shared_ptr<Mark> Event::recorded() const {
  const std::lock_guard lock(mutex_);
  return mark_;
}

}  // namespace paceline::cuda::stand_in
