// A channel through memory that both processes of one host map. One creates it, the other opens it.
//
//   header │ slots of the creator's messages │ slots of the opener's messages
//
// A ring channel does not notice that its peer died: an end that waits for it times out, again and again.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include <absl/status/statusor.h>

#include "paceline/transport/channels/channel.h"
#include "paceline/transport/ipc/shared_memory.h"

namespace paceline::channels {

class RingChannel final : public Channel {
 public:
  // Requires: sane(sizes), both ways. Errors: ResourceExhausted.
  static absl::StatusOr<RingChannel> create(const ChannelSizes& sizes);
  // `path`: the creator's path(). Errors: NotFound (the peer is gone), InvalidArgument (no channel of these
  // sizes).
  static absl::StatusOr<RingChannel> open(const std::string& path, const ChannelSizes& sizes);
  // The name of the memory, for the peer's open(). Valid while this end lives.
  std::string path() const { return memory_.path(); }

  absl::StatusOr<std::optional<std::span<std::byte>>> room(std::chrono::nanoseconds timeout) override;
  void send(std::size_t bytes) override;
  absl::StatusOr<std::optional<std::span<const std::byte>>> message(
      std::chrono::nanoseconds timeout) override;
  void release() override;

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

  RingChannel(ipc::SharedMemory memory, ipc::Mapping mapping, const ChannelSizes& sizes, bool creator);

  ipc::SharedMemory memory_;
  ipc::Mapping mapping_;
  Lane out_;
  Lane in_;
};

}  // namespace paceline::channels
