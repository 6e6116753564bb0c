// Writes a server's part of checkpoints beside training, one after the other.
#pragma once

#include <functional>
#include <stop_token>
#include <thread>

namespace paceline::server_process {

class CheckpointWriter {
 public:
  // Waits for what is being written. The end of this object gives up what is being written then: it asks for a stop.
  void write(std::function<void(const std::stop_token& stop)> write) {
    if (thread_.joinable()) thread_.join();
    thread_ = std::jthread(std::move(write));
  }

 private:
  std::jthread thread_;
};

}  // namespace paceline::server_process
