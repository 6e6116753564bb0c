// A port moves a link's frames from one process to another, in its carrier's way (carrier.h). A link only
// talks to its port, so there is only one kind of link.
//
// Invariant: frames come once, in the order posted, whole or with the notice that the peer is lost.
// A port calls its sink from within progress() and post(), and not after stop().
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
  // A frame begins to come: where its data belong. An error: the frame is refused, and the link will stop.
  virtual absl::StatusOr<std::byte*> frame_came(std::span<const std::byte> head, std::size_t data_bytes) = 0;
  // The data of the frame that came as the `count`th, from 0, are there.
  virtual void data_came(std::uint64_t count) = 0;
  // Head and data of the `count`th frame that was posted are the link's again.
  virtual void frame_sent(std::uint64_t count) = 0;
  virtual void peer_lost(const std::string& why) = 0;

 protected:
  ~FrameSink() = default;
};

class FramePort {
 public:
  virtual ~FramePort() = default;
  // Once, before anything else.
  virtual void start(FrameSink& sink) = 0;
  // Head and data stay as they are until frame_sent().
  virtual void post(std::span<const std::byte> head, std::span<const std::byte> data) = 0;
  // Of the data of a frame, at its best, where so many are left of its message, at least one; a frame may
  // have up to kInlineBytes in any case.
  virtual std::size_t chunk_bytes(std::size_t left) const = 0;
  // Whether a chunk that is posted now would go on its way, as far as is known. If not, it is better posted
  // when there has been progress.
  virtual bool takes_chunk() const { return true; }
  virtual void progress() = 0;
  // To be watched for reading once arm() has said that there is nothing to do.
  virtual int fd() const = 0;
  virtual bool arm() = 0;
  // Nothing more is posted, and stop() comes next. Helps what has been sent to the peer, without waiting;
  // true when it is there, or will never be.
  virtual bool finish() { return true; }
  // The peer's host answers, as far as is known; the peer itself may say nothing yet.
  virtual bool connected() const { return true; }
  // From here on it touches no memory but its own.
  virtual void stop() = 0;
};

// Where ports come from that others have connected to.
class PortListener {
 public:
  using OnPort = std::function<void(std::unique_ptr<FramePort>, std::string peer)>;
  virtual ~PortListener() = default;
  // Where others reach it.
  virtual const std::string& address() const = 0;
  // False when the system has no means to take anybody in now; with somebody waiting, fd() stays readable.
  virtual bool progress(const OnPort& on_port) = 0;
  virtual int fd() const = 0;
  virtual bool arm() = 0;
};

}  // namespace paceline::links
