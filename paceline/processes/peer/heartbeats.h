// Reports regularly that this process lives, independent of its other work, as long as the object exists. It
// also writes to the log how many connections were refused meanwhile.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <stop_token>
#include <thread>
#include <type_traits>

#include "paceline/base/resident_memory.h"
#include "paceline/processes/peer/refused_log.h"
#include "paceline/processes/rpc/connection.h"

namespace paceline::peer {

class Heartbeats {
 public:
  static constexpr std::chrono::milliseconds kEvery{100};
  static constexpr int kPerReport = 10;  // one of this many beats says how much memory the process holds

  // The connection outlives this. `more`: adds to each beat, on the heartbeats' own thread.
  template <class Out, class In>
  explicit Heartbeats(rpc::Connection<Out, In>& connection,
                      const std::type_identity_t<std::function<void(Out&)>>& more = {})
      : thread_([this, &connection, more](const std::stop_token& stop) {
          for (int count = 0; !pause(stop); ++count) {
            Out beat;
            beat.mutable_heartbeat();
            if (count % kPerReport == 0) beat.mutable_heartbeat()->set_resident_bytes(resident_bytes());
            if (more) more(beat);
            if (!connection.send(beat)) return;
            say_how_many_more();
          }
        }) {}

 private:
  // True if it was stopped.
  bool pause(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    return stopped_.wait_for(lock, stop, kEvery, [&] { return stop.stop_requested(); });
  }

  std::mutex mutex_;
  std::condition_variable_any stopped_;
  std::jthread thread_;  // last: it uses the others
};

}  // namespace paceline::peer
