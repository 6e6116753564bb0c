// Messages between two processes, both ways: the traffic between the stages of a pipeline. Within a host they
// go through memory that both map (ring_channel.h), between hosts over a link (link_channels.h). One end
// creates the channel and the other opens it; from there on both are alike, and so are the kinds. An end
// sleeps while it waits, and never longer than it is told.
//
// Invariant: messages arrive whole, once, and in order; a slot belongs to the sender until it is sent
// and to the receiver until it is released. A peer that dies leaves nothing half-sent. Whether it still lives
// is for others to say: what is known here is at most that nothing can come any more.
//
// One thread an end.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include <absl/status/statusor.h>

namespace paceline::channels {

inline constexpr std::int64_t kMostSlots = 16;
// Slots begin at multiples of it, so that no two share a line of a processor's cache.
inline constexpr std::size_t kCacheLine = 64;

// Of the messages one way.
struct ChannelSize {
  std::int64_t slots = 2;       // messages that can be on their way: 1, 2, 4, 8 or 16
  std::int64_t slot_bytes = 0;  // of the largest
  friend bool operator==(const ChannelSize&, const ChannelSize&) = default;
};

struct ChannelSizes {
  ChannelSize from_creator;
  ChannelSize from_opener;
};

// A slot begins at a cache line.
std::size_t slot_stride(const ChannelSize& size);
// Such slots can be.
bool sane(const ChannelSize& size);

class Channel {
 public:
  virtual ~Channel() = default;

  // Room for the next message, `slot_bytes` aligned to a cache line; nothing when there is none within
  // `timeout`. The same room again until it is sent. Errors: Unavailable when there will be none.
  virtual absl::StatusOr<std::optional<std::span<std::byte>>> room(std::chrono::nanoseconds timeout) = 0;
  // Sends the first `bytes` of it. Requires: room() gave it, and it is so large.
  virtual void send(std::size_t bytes) = 0;

  // The oldest message that is not released; nothing when none comes within `timeout`. Errors: DataLoss when
  // the peer wrote what cannot be; Unavailable when there will be none.
  virtual absl::StatusOr<std::optional<std::span<const std::byte>>> message(
      std::chrono::nanoseconds timeout) = 0;
  // The message may be overwritten. Requires: message() gave it.
  virtual void release() = 0;
};

}  // namespace paceline::channels
