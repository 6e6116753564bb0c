// A process's end of a local socket (local_socket.h).
#pragma once

#include <atomic>
#include <chrono>
#include <optional>
#include <string_view>

#include "paceline/base/file_descriptor.h"
#include "paceline/base/wake_event.h"
#include "paceline/processes/rpc/local_socket.h"

namespace paceline::rpc {

class LocalClient {
 public:
  LocalClient(FileDescriptor socket, WakeEvent ended)
      : socket_(std::move(socket)), ended_(std::move(ended)) {}

  // Sends frames; waits while the other end does not take them. False if it is closed. One thread at a time.
  bool send(std::string_view frames);

  // The next message; valid until the next call. Waits for it until it is here or the stream has ended, but no longer than
  // `limit`, if there is one. One thread at a time, and it may be another one than the one that sends.
  std::optional<std::string_view> next(std::optional<std::chrono::nanoseconds> limit);

  // The stream has ended: nothing comes but what has arrived. From any thread.
  void end();

 private:
  // Waits until there is something to do at the socket, the stream has ended, or the time has come.
  void sleep(short events, std::optional<std::chrono::steady_clock::time_point> until);

  const FileDescriptor socket_;
  const WakeEvent ended_;
  std::atomic<bool> over_ = false;
  // For the thread that receives.
  Frames frames_;
  bool closed_ = false;  // at the other end
};

}  // namespace paceline::rpc
