// The coordinator's end of a local socket (local_socket.h). Its messages are taken on the event loop, and sent from any
// thread.
#pragma once

#include <cstddef>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "paceline/base/event_loop.h"
#include "paceline/base/file_descriptor.h"
#include "paceline/processes/rpc/local_socket.h"

namespace paceline::rpc {

class LocalPeer {
 public:
  // These are called on the loop's thread.
  struct Told {
    // One message. False if it makes no sense: it is the last one then.
    std::function<bool(std::string_view)> message;
    // The socket may take bytes again: send_more().
    std::function<void()> writable;
    // No message will come any more.
    std::function<void()> ended;
  };

  // The loop outlives it.
  LocalPeer(FileDescriptor socket, EventLoop& loop, Told told);

  // Call it once, on the loop's thread: messages are taken from now on.
  void watch();
  // Takes what has arrived, and nothing more afterwards. On the loop's thread.
  void take_last();

  // Sends the bytes, now or later. False if the other end is closed.
  bool send(std::string_view bytes);
  bool send_more() { return send({}); }
  std::size_t unsent() const;  // bytes
  // The other end learns that nothing more comes.
  void close();

 private:
  Frames::Received take();
  void take_ready();

  const FileDescriptor socket_;
  EventLoop& loop_;
  const Told told_;
  // For the loop's thread only.
  Frames frames_;
  bool ended_ = false;

  mutable std::mutex mutex_;  // guards what follows
  std::optional<Watch> watch_;
  std::string bytes_;     // the last ones of these are not sent
  std::size_t sent_ = 0;  // the first ones
};

}  // namespace paceline::rpc
