// The times of a server's commits, until the next message to the coordinator carries them: a heartbeat, or an
// earlier one. Any thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <mutex>
#include <vector>

#include "paceline/formats/wire/paceline.pb.h"

namespace paceline::server_process {

class UpdateTimes {
 public:
  // If there are more, the last ones are not reported.
  static constexpr std::size_t kMost = 4096;

  // Notes an update that was made now; `update` says no age.
  void made(wire::UpdateTime update) {
    const std::lock_guard lock(mutex_);
    if (made_.size() < kMost) made_.push_back({std::move(update), std::chrono::steady_clock::now()});
  }
  void move_to(wire::ServerMessage& message) {
    const std::lock_guard lock(mutex_);
    const auto now = std::chrono::steady_clock::now();
    for (Made& one : made_) {
      one.update.set_age_ns(std::chrono::nanoseconds(now - one.at).count());
      *message.add_updates() = std::move(one.update);
    }
    made_.clear();
  }

 private:
  struct Made {
    wire::UpdateTime update;
    std::chrono::steady_clock::time_point at;
  };
  std::mutex mutex_;
  std::vector<Made> made_;
};

}  // namespace paceline::server_process
