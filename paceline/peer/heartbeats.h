// Says again and again that this process lives, whatever else it is doing, for as long as the object does;
// and in its log how many were refused meanwhile.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <stop_token>
#include <thread>

#include "paceline/peer/refused_log.h"
#include "paceline/rpc/connection.h"

namespace paceline::peer {

class Heartbeats {
 public:
  static constexpr std::chrono::milliseconds kEvery{100};

  // The connection outlives this.
  template <class Out, class In>
  explicit Heartbeats(rpc::Connection<Out, In>& connection)
      : thread_([this, &connection](const std::stop_token& stop) {
          Out beat;
          beat.mutable_heartbeat();
          while (!pause(stop) && connection.send(beat)) say_how_many_more();
        }) {}

 private:
  // Whether it was stopped.
  bool pause(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    return stopped_.wait_for(lock, stop, kEvery, [&] { return stop.stop_requested(); });
  }

  std::mutex mutex_;
  std::condition_variable_any stopped_;
  std::jthread thread_;  // last: it uses the others
};

}  // namespace paceline::peer
