// How many streams a service has at a time. A process with a job's token may open as many as it likes, and
// each costs memory. Any thread.
#pragma once

#include <atomic>
#include <memory>

namespace paceline::rpc {

class StreamPlaces {
 public:
  explicit StreamPlaces(int most) : free_(most) {}
  StreamPlaces(const StreamPlaces&) = delete;
  StreamPlaces& operator=(const StreamPlaces&) = delete;

  struct GiveBack {
    void operator()(StreamPlaces* all) const { ++all->free_; }
  };
  // Free again when this is destroyed, before the places are.
  using Place = std::unique_ptr<StreamPlaces, GiveBack>;

  // Null when there is none.
  Place take() {
    if (free_.fetch_sub(1) > 0) return Place(this);
    ++free_;
    return nullptr;
  }

 private:
  std::atomic<int> free_;
};

}  // namespace paceline::rpc
