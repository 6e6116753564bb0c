// A stream between a process and the coordinator. What one side sends comes in its order, after a while that
// differs from message to message; streams do not wait for each other. When one side's process dies, what is
// on its way comes or does not, up to some message; then the other side sees the end.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <utility>

#include "paceline/cluster_sim/process.h"

namespace paceline::cluster_sim {

struct Network {
  double least_ms = 0.05, most_ms = 2;
  double slow_share = 0.02, slow_ms = 300;  // of messages that take up to so long

  Milliseconds delay(World& world) const {
    return world.chance(slow_share) ? world.between(most_ms, slow_ms) : world.between(least_ms, most_ms);
  }
};

// One way of it.
class Pipe {
 public:
  Pipe(World& world, const Network& network, Process& to) : world_(world), network_(network), to_(to) {}

  // `deliver` happens to the receiver, unless it died or the way was cut before.
  void send(std::function<void()> deliver) {
    if (ended_) return;
    last_ = std::max(last_, world_.now() + delay());
    world_.at(last_, to_.happening([cut = cut_, number = sent_++, deliver = std::move(deliver)] {
      if (number < *cut) deliver();
    }));
  }
  // The sender has sent its last, and the receiver sees the end after all of it; `lossy`: after some of it.
  void end(bool lossy, std::function<void()> seen) {
    if (ended_) return;
    if (lossy)
      *cut_ =
          std::min<std::uint64_t>(*cut_, sent_ - world_.rng().below(std::min<std::uint64_t>(sent_, 4) + 1));
    send(std::move(seen), true);
    ended_ = true;
  }

 private:
  void send(std::function<void()> deliver, bool) {
    last_ = std::max(last_, world_.now() + delay());
    world_.at(last_, to_.happening(std::move(deliver)));
  }
  SteadyTime::duration delay() {
    return std::chrono::duration_cast<SteadyTime::duration>(network_.delay(world_));
  }

  World& world_;
  const Network& network_;
  Process& to_;
  SteadyTime last_{};
  std::uint64_t sent_ = 0;
  std::shared_ptr<std::uint64_t> cut_ =
      std::make_shared<std::uint64_t>(UINT64_MAX);  // the first that is lost
  bool ended_ = false;
};

}  // namespace paceline::cluster_sim
