// Events of virtual time, in their order. Events of one moment come out in the order they were put in, so
// that a run is the same every time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <tuple>
#include <vector>

#include "paceline/base/time.h"

namespace paceline::sim {

template <class What>
class EventQueue {
 public:
  struct Event {
    Time at;
    std::uint64_t number = 0;
    What what;
    friend bool operator>(const Event& a, const Event& b) {
      return std::tie(a.at, a.number) > std::tie(b.at, b.number);
    }
  };

  void put(Time at, What what) {
    heap_.push_back({at, next_++, std::move(what)});
    std::push_heap(heap_.begin(), heap_.end(), std::greater<>());
  }
  bool empty() const { return heap_.empty(); }
  // Requires: not empty.
  Event take() {
    std::pop_heap(heap_.begin(), heap_.end(), std::greater<>());
    Event event = std::move(heap_.back());
    heap_.pop_back();
    return event;
  }

 private:
  std::vector<Event> heap_;
  std::uint64_t next_ = 0;
};

}  // namespace paceline::sim
