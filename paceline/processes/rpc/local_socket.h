// The way of a stream's messages between two processes of one host: a socket of the Unix domain. A message through gRPC
// wakes about four threads one after the other, and one through this socket wakes the thread that takes it. The gRPC
// stream remains: it says who the peer is, and its end is the peer's end.
//
// The client listens at a name that it sends with the call (LocalOffer). A coordinator that finds this name on its host
// connects, and says so in the call's first answer; from then on all messages of both sides go over the socket.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <absl/status/statusor.h>

#include "paceline/base/file_descriptor.h"

namespace paceline::rpc {

// Metadata of a call: the offer, and the answer that it is taken.
inline constexpr char kLocalOfferKey[] = "paceline-local";
inline constexpr char kLocalTaken[] = "taken";

// Bytes; gRPC takes no longer message either. The longest ones name each tensor of a model.
inline constexpr std::size_t kLongestFrame = 32 << 20;

class LocalOffer {
 public:
  // Errors: Unavailable if this process cannot listen.
  static absl::StatusOr<LocalOffer> make();

  // The name and a key, as it is sent.
  const std::string& text() const { return text_; }
  // The connection of the process that took the offer. Not blocking. Errors: Unavailable if it has not connected.
  absl::StatusOr<FileDescriptor> accept() const;

 private:
  LocalOffer(FileDescriptor listener, std::string key, std::string text);

  FileDescriptor listener_;
  std::string key_, text_;
};

// Connects to the peer that made the offer; `text` is from outside. Not blocking; nothing if the peer is on another host,
// or has another user.
std::optional<FileDescriptor> take_offer(std::string_view text);

// A message as it goes over the socket: four bytes with its length, the lowest byte first, and the message.
class Frames {
 public:
  // Adds a frame with a message of so many bytes, and returns the place where they have to be written. Requires: at most
  // kLongestFrame.
  static char* add_to(std::string& bytes, std::size_t size);

  enum class Received {
    kSome,
    kNothing,  // for now
    kEnded,    // nothing more will come: the other end is closed, or sent a frame that is too long
  };
  // Reads some of what has arrived, without waiting.
  Received receive(int socket);
  // The next whole message; valid until the next call of receive().
  std::optional<std::string_view> next();

 private:
  std::string bytes_;
  std::size_t taken_ = 0;  // bytes of messages that next() returned
};

// A message of protobuf as a frame. Requires: `size` is its ByteSizeLong(), and at most kLongestFrame.
template <class Message>
std::string framed(const Message& message, std::size_t size) {
  std::string frame;
  char* const bytes = Frames::add_to(frame, size);
  message.SerializeWithCachedSizesToArray(reinterpret_cast<std::uint8_t*>(bytes));
  return frame;
}

// Sends as much as the socket takes at once, and returns the number of bytes. Nothing if the other end is closed.
std::optional<std::size_t> send_at_once(int socket, std::string_view bytes);

}  // namespace paceline::rpc
