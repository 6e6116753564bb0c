// A stream between a process and the coordinator. What one side sends comes in its order, after a while that
// differs from message to message; streams do not wait for each other. When one side's process dies, what is
// on its way comes or does not, up to some message; then the other side sees the end.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <utility>

#include "paceline/cluster_sim/network.h"
#include "paceline/cluster_sim/process.h"

namespace paceline::cluster_sim {

// One way of it.
class Pipe {
 public:
  Pipe(World& world, const Network& network, const Process& from, Process& to)
      : world_(world), network_(network), from_(from), to_(to) {}

  // `deliver` happens to the receiver, unless it died or the way was cut before.
  void send(std::function<void()> deliver) {
    if (ended_) return;
    arrive([cut = cut_, number = sent_++, deliver = std::move(deliver)] {
      if (number < *cut) deliver();
    });
  }
  // The sender has sent its last, and the receiver sees the end after all of it; `lossy`: after some of it.
  void end(bool lossy, std::function<void()> seen) {
    if (ended_) return;
    if (lossy)
      *cut_ =
          std::min<std::uint64_t>(*cut_, sent_ - world_.rng().below(std::min<std::uint64_t>(sent_, 4) + 1));
    arrive(std::move(seen));
    ended_ = true;
  }

 private:
  void arrive(std::function<void()> what) {
    last_ = std::max(last_, network_.arrival(from_.place(), to_.place()));
    world_.at(last_, to_.happening(std::move(what)));
  }

  World& world_;
  const Network& network_;
  const Process& from_;
  Process& to_;
  SteadyTime last_{};
  std::uint64_t sent_ = 0;
  std::shared_ptr<std::uint64_t> cut_ =
      std::make_shared<std::uint64_t>(UINT64_MAX);  // the first that is lost
  bool ended_ = false;
};

}  // namespace paceline::cluster_sim
