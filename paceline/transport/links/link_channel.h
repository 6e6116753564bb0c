// An end of a channel that goes over a link. Two threads share it: its owner's, which waits for room and
// messages, and the one that moves the link (link_channels.h). Between them are the slots of both ways, and
// how far each has come.
//
// A message is a message of the link, its payload the slot; the receiver reports which ones it has released,
// so that no more messages are under way than there are slots, as in memory. A peer is not trusted: a message
// for which there is no slot, or none of its size, ends the channel.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include <absl/status/status.h>

#include "paceline/transport/channels/channel.h"
#include "paceline/transport/links/link.h"

namespace paceline::links {

class LinkEnd : public std::enable_shared_from_this<LinkEnd> {
 public:
  LinkEnd(const channels::ChannelSize& out, const channels::ChannelSize& in);

  // ---- Called by the owner; see Channel. After send() and release() the link has something to do.
  absl::StatusOr<std::optional<std::span<std::byte>>> room(std::chrono::nanoseconds timeout);
  void send(std::size_t bytes);
  absl::StatusOr<std::optional<std::span<const std::byte>>> message(std::chrono::nanoseconds timeout);
  void release();
  // Called when the owner is done with the channel.
  void close();

  // ---- Called by the thread that moves the link.
  // Takes the link's messages from now on. Call before the link's first progress().
  void attach(Link& link);
  // Hands over the messages that the owner has sent, and its releases.
  void pump(Link& link);
  // Nothing more is sent or received. Messages that have come can still be taken.
  void end(const absl::Status& why);
  // The reason why the peer cannot be served any longer; OK if it can.
  absl::Status trouble();
  bool closed();

 private:
  struct Slots {
    explicit Slots(const channels::ChannelSize& size);
    std::span<std::byte> at(std::uint64_t count);
    std::size_t index(std::uint64_t count) const { return count % bytes.size(); }

    std::size_t slot_bytes;
    std::size_t stride;
    std::unique_ptr<std::byte[]> memory;  // pages take memory when they are first written, as in a ring
    std::byte* first;                     // the first cache line
    std::vector<std::size_t> bytes;       // the size of the message in each slot
    std::vector<bool> busy;               // the link uses the slot
    std::uint64_t begun = 0;              // messages that this end has sent, or that have begun to come
    std::uint64_t released = 0;           // messages that the receiver has released
    std::uint64_t told = 0;  // how many of the sent messages, or of the releases, the link was told
  };

  void hear(Link& link, const Link::Message& message);
  absl::Status take(Link& link, const Link::Message& message);
  absl::Status check(const Link::Message& message) const;
  void landed(std::size_t slot);
  bool has_room() const;
  bool has_message() const;
  // Waits for `what`. False if time is up. Errors: why it will never be true.
  absl::StatusOr<bool> wait(std::chrono::nanoseconds timeout, const std::function<bool()>& what);

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  Slots out_;
  Slots in_;
  absl::Status ended_;
  absl::Status trouble_;
  bool closed_ = false;
};

}  // namespace paceline::links
