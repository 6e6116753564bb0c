// Messages between two processes, both ways: the traffic between the stages of a pipeline. Within a host they
// go through memory that both processes map (ring_channel.h), between hosts over a link (link_channels.h).
// One end creates the channel and the other opens it; after that both ends are used alike, and so are both
// kinds. An end sleeps while it waits, for no longer than its timeout.
//
// Invariant: messages arrive whole, once, and in order; a slot belongs to the sender until it is sent and to
// the receiver until it is released. A peer that dies leaves nothing half-sent. A channel may not notice that
// its peer died; at most it knows that nothing can come any more.
//
// Each end is used by one thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include <absl/status/statusor.h>

namespace paceline::channels {

inline constexpr std::int64_t kMostSlots = 16;
// A slot begins at a multiple of this, so that no two slots share a line of a processor's cache.
inline constexpr std::size_t kCacheLine = 64;

// The messages of one direction.
struct ChannelSize {
  std::int64_t slots = 2;       // messages that can be on their way: 1, 2, 4, 8 or 16
  std::int64_t slot_bytes = 0;  // the largest message
  friend bool operator==(const ChannelSize&, const ChannelSize&) = default;
};

struct ChannelSizes {
  ChannelSize from_creator;
  ChannelSize from_opener;
};

// The bytes from the beginning of a slot to the next: whole cache lines.
std::size_t slot_stride(const ChannelSize& size);
// True if a channel can have such slots.
bool sane(const ChannelSize& size);

class Channel {
 public:
  virtual ~Channel() = default;

  // Room for the next message: `slot_bytes` aligned to a cache line. Nothing if no slot becomes free within
  // `timeout`. The same room is returned until it is sent. Errors: Unavailable if the peer will free no more
  // slots.
  virtual absl::StatusOr<std::optional<std::span<std::byte>>> room(std::chrono::nanoseconds timeout) = 0;
  // Sends the first `bytes` of the room. Requires: room() returned it, and it has at least `bytes`.
  virtual void send(std::size_t bytes) = 0;

  // The oldest message that is not released; nothing if none comes within `timeout`. Errors: DataLoss if the
  // peer wrote an impossible size; Unavailable if no message can come any more.
  virtual absl::StatusOr<std::optional<std::span<const std::byte>>> message(
      std::chrono::nanoseconds timeout) = 0;
  // Lets the peer overwrite the message. Requires: message() returned it.
  virtual void release() = 0;
};

}  // namespace paceline::channels
