// Messages between two processes of one host, both ways, through memory that both map: what the stages of a
// pipeline hand to each other. One process creates it, the other opens it; from there on both ends are alike.
// An end sleeps while it waits, and never longer than it is told: whether its peer still lives is for others
// to say.
//
//   header │ slots of the creator's messages │ slots of the opener's messages
//
// What always holds: messages arrive whole, once, and in order; a slot belongs to the sender until it is sent
// and to the receiver until it is released. A peer that dies leaves nothing half-sent.
//
// One thread an end.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include <absl/status/statusor.h>

#include "paceline/transport/shared_memory.h"

namespace paceline::transport {

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

class Channel {
 public:
  // Requires: sizes as above. Errors: ResourceExhausted.
  static absl::StatusOr<Channel> create(const ChannelSizes& sizes);
  // What the peer gave as its path(). Errors: NotFound (the peer is gone), InvalidArgument (no channel of
  // these sizes).
  static absl::StatusOr<Channel> open(const std::string& path, const ChannelSizes& sizes);
  // For the peer, while this end lives.
  std::string path() const { return memory_.path(); }

  // Room for the next message, `slot_bytes` aligned to a cache line; nothing when there is none within
  // `timeout`. The same room again until it is sent.
  std::optional<std::span<std::byte>> room(std::chrono::nanoseconds timeout);
  // Sends the first `bytes` of it. Requires: room() gave it, and it is so large.
  void send(std::size_t bytes);

  // The oldest message that is not released; nothing when none comes within `timeout`. Errors: DataLoss when
  // the peer wrote what cannot be.
  absl::StatusOr<std::optional<std::span<const std::byte>>> message(std::chrono::nanoseconds timeout);
  // The message may be overwritten. Requires: message() gave it.
  void release();

 private:
  struct Header;
  struct Way;
  // One direction as this end sees it.
  struct Lane {
    Way* way = nullptr;
    std::byte* slots = nullptr;
    ChannelSize size;
    std::uint32_t count = 0;  // messages this end has sent, or released
    std::byte* slot() const;
  };

  Channel(SharedMemory memory, Mapping mapping, const ChannelSizes& sizes, bool creator);

  SharedMemory memory_;
  Mapping mapping_;
  Lane out_;
  Lane in_;
};

}  // namespace paceline::transport
