// A port moves a link's frames from one process to another, in its carrier's way (carrier.h). A link only
// talks to its port, so there is only one kind of link.
//
// Invariant: frames come once, in the order posted, whole or with the notice that the peer is lost. A port
// calls its sink from within progress() and post(), and not after stop().
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include <absl/status/statusor.h>

namespace paceline::links {

class FrameSink {
 public:
  // A frame begins to come. Returns the memory for its data. An error refuses the frame, and the link will
  // stop.
  virtual absl::StatusOr<std::byte*> frame_came(std::span<const std::byte> head, std::size_t data_bytes) = 0;
  // The data of the `count`th frame that came, from 0, are complete.
  virtual void data_came(std::uint64_t count) = 0;
  // Head and data of the `count`th frame that was posted belong to the link again.
  virtual void frame_sent(std::uint64_t count) = 0;
  virtual void peer_lost(const std::string& why) = 0;

 protected:
  ~FrameSink() = default;
};

class FramePort {
 public:
  virtual ~FramePort() = default;
  // Called once, before anything else.
  virtual void start(FrameSink& sink) = 0;
  // Head and data must stay unchanged until frame_sent().
  virtual void post(std::span<const std::byte> head, std::span<const std::byte> data) = 0;
  // The best size for the next frame's data, given that `left` bytes of the message remain. At least 1. A
  // frame may have up to kInlineBytes in any case.
  virtual std::size_t chunk_bytes(std::size_t left) const = 0;
  // True if a chunk that is posted now would leave at once, as far as is known. If not, it should be posted
  // after some progress.
  virtual bool takes_chunk() const { return true; }
  virtual void progress() = 0;
  // The descriptor to watch for reading once arm() has returned true, which means that there is nothing to
  // do.
  virtual int fd() const = 0;
  virtual bool arm() = 0;
  // Called when nothing more is posted, before stop(). Helps posted frames to reach the peer, without
  // waiting; true if they have, or never will.
  virtual bool finish() { return true; }
  // True if the peer's host answers, as far as is known; the peer itself may not have answered yet.
  virtual bool connected() const { return true; }
  // From here on the port touches no memory but its own.
  virtual void stop() = 0;
};

// Makes ports for peers that connect to this host.
class PortListener {
 public:
  using OnPort = std::function<void(std::unique_ptr<FramePort>, std::string peer)>;
  virtual ~PortListener() = default;
  // The address at which peers reach it.
  virtual const std::string& address() const = 0;
  // False if the system has no means to accept a peer now; while a peer waits, fd() stays readable.
  virtual bool progress(const OnPort& on_port) = 0;
  virtual int fd() const = 0;
  virtual bool arm() = 0;
};

}  // namespace paceline::links
