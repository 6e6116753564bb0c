// The delays of messages from place to place, and which ways are cut. A message that is sent over a cut way
// arrives once the way is whole again, so streams that took other ways overtake it.
#pragma once

#include <algorithm>
#include <map>
#include <utility>

#include "paceline/simulation/cluster_sim/world.h"

namespace paceline::cluster_sim {

class Network {
 public:
  explicit Network(World& world) : world_(world) {}

  void cut(int one, int other, Milliseconds time) {
    SteadyTime& until = cut_[std::minmax(one, other)];
    until = std::max(until, world_.now() + std::chrono::duration_cast<SteadyTime::duration>(time));
  }
  bool is_cut(int one, int other) const { return until(one, other) > world_.now(); }
  // The time at which a message that is sent now arrives.
  SteadyTime arrival(int from, int to) const {
    return std::max(world_.now(), until(from, to)) +
           std::chrono::duration_cast<SteadyTime::duration>(delay());
  }

 private:
  static constexpr double kLeast_ms = 0.05, kMost_ms = 2;
  static constexpr double kSlowShare = 0.02, kSlow_ms = 300;  // this share of messages takes up to kSlow_ms

  SteadyTime until(int one, int other) const {
    const auto found = cut_.find(std::minmax(one, other));
    return found == cut_.end() ? SteadyTime{} : found->second;
  }
  Milliseconds delay() const {
    return world_.chance(kSlowShare) ? world_.between(kMost_ms, kSlow_ms)
                                     : world_.between(kLeast_ms, kMost_ms);
  }

  World& world_;
  std::map<std::pair<int, int>, SteadyTime> cut_;  // until when each way is cut
};

}  // namespace paceline::cluster_sim
