// A stream between a process and the coordinator. Messages of one side arrive in order, each after a delay of
// its own; different streams do not wait for each other. When one side's process dies, its messages that are
// under way arrive up to some message and are lost from there on; then the other side sees the end. Messages that a
// local socket keeps are not lost.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <utility>

#include "paceline/simulation/cluster_sim/network.h"
#include "paceline/simulation/cluster_sim/process.h"

namespace paceline::cluster_sim {

// One direction of a stream.
class Pipe {
 public:
  Pipe(World& world, const Network& network, const Process& from, Process& to)
      : world_(world), network_(network), from_(from), to_(to) {}

  // Calls `deliver` at the receiver, unless the receiver dies or the stream is cut before.
  void send(std::function<void()> deliver) {
    if (ended_) return;
    arrive([cut = cut_, number = sent_++, deliver = std::move(deliver)] {
      if (number < *cut) deliver();
    });
  }
  // Messages that were sent before are not lost if the sender dies.
  void keep() { kept_ = sent_; }
  // Ends the direction: the receiver sees the end after all messages. `lossy`: after only some of the last
  // ones.
  void end(bool lossy, std::function<void()> seen) {
    if (ended_) return;
    if (lossy)
      *cut_ =
          std::min(*cut_, std::max(kept_, sent_ - world_.rng().below(std::min<std::uint64_t>(sent_, 4) + 1)));
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
  std::uint64_t sent_ = 0, kept_ = 0;  // messages; the first ones are kept
  std::shared_ptr<std::uint64_t> cut_ =
      std::make_shared<std::uint64_t>(UINT64_MAX);  // the number of the first message that is lost
  bool ended_ = false;
};

}  // namespace paceline::cluster_sim
