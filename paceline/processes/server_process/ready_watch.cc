#include "paceline/processes/server_process/ready_watch.h"

#include <chrono>
#include <utility>

namespace paceline::server_process {

namespace {
// The bell may be another one after this time.
constexpr std::chrono::milliseconds kLook{100};
}  // namespace

ReadyWatch::~ReadyWatch() {
  if (!thread_.joinable()) return;
  thread_.request_stop();
  const std::lock_guard lock(turn_);
  if (const auto bell = bell_()) bell->ring();
}

absl::Status ReadyWatch::take(wire::ServerOrder order) {
  const std::lock_guard lock(turn_);
  if (!failed_.ok()) return failed_;
  absl::Status taken = server_.take(std::move(order));
  if (server_.expects() && !thread_.joinable())
    thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
  return taken;
}

absl::Status ReadyWatch::failure() {
  const std::lock_guard lock(turn_);
  return failed_;
}

void ReadyWatch::run(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    std::shared_ptr<const memory::BoardBell> bell;
    std::uint32_t seen = 0;
    {
      const std::lock_guard lock(turn_);
      bell = bell_();
      if (bell != nullptr) seen = bell->rung();
      failed_ = server_.look();
      if (!failed_.ok()) return;
    }
    if (bell != nullptr) {
      bell->wait(seen, kLook);
    } else {
      std::this_thread::sleep_for(kLook);
    }
  }
}

}  // namespace paceline::server_process
