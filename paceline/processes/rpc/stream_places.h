// A limit for the number of streams that a service has at a time. A process with a job's token may open many,
// and each costs memory. Any thread.
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
  // One place, free again when this is destroyed. The StreamPlaces outlives it.
  using Place = std::unique_ptr<StreamPlaces, GiveBack>;

  // Null if no place is free.
  Place take() {
    if (free_.fetch_sub(1) > 0) return Place(this);
    ++free_;
    return nullptr;
  }

 private:
  std::atomic<int> free_;
};

}  // namespace paceline::rpc
