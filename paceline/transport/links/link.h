// A connection between two processes that carries messages both ways. A message is a small header and a
// payload: the receiver sees the header and gives the memory for the payload, so that it is not copied on the
// way. It runs over any carrier (carrier.h): the end that connects chooses one, and after that there is no
// difference.
//
// The owner calls progress(), which calls back about everything that happened. If there is nothing to do, the
// owner sleeps on fd(), alone or with other descriptors. A link sends a sign of life twice a second, so
// progress() has to be called at least once a second.
//
// Invariants
// - Headers come once and in the order sent; payloads whole and unchanged.
// - Memory handed to send() or receive() is the link's until that call's Done, and the caller's afterwards.
// - Every Done is called exactly once, unless the link is destroyed first. When the link ends, it gets the
//   reason.
// - What came before a link ended is heard before its end, and can be received if it came whole.
// - A message whose Done was OK reaches a peer that is well, even if the link is destroyed then.
// - A link that has ended stays so: the system knows a dead peer at once, and a silent one after
//   LinkOptions::silence.
// - With keys, a payload cannot be read on the way; and frames that were changed, left out, repeated or moved
//   on the way end the link. Headers can be read, not changed. (See seal.h.)
//
// One thread at a time; progress() is not called from within a Done or on_message. Those may send and
// receive, but not destroy the link.
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "paceline/base/file_descriptor.h"
#include "paceline/transport/links/frame_stream.h"
#include "paceline/transport/links/received.h"

namespace paceline::links {

// A key for each direction: one end's `send` is the other end's `receive`.
struct LinkKeys {
  SealKey send;
  SealKey receive;
};

struct LinkOptions {
  // Nothing: in the clear. Both ends have to be alike.
  std::optional<LinkKeys> keys;
  // The most bytes of a payload. A link carries what both its ends allow.
  std::size_t most_payload = std::size_t{1} << 30;
  // The limits until the peer's host answers, and until both ends know each other.
  std::chrono::milliseconds connect_limit{5000};
  std::chrono::milliseconds hello_limit{5000};
  // The limit without a sign of life. A link that carries less than a chunk (1 MB) in this time counts as
  // silent.
  std::chrono::milliseconds silence{5000};
  // The time that sent messages get to reach the peer when the link is closed: its host's kernel over TCP, and its
  // process, which has to move its link, over UCX.
  std::chrono::milliseconds finish{1000};
};

class Link final : FrameOwner {
 public:
  using Done = std::function<void(const absl::Status&)>;
  struct Message {
    std::uint64_t id = 0;               // for receive()
    std::span<const std::byte> header;  // valid while on_message runs
    std::size_t bytes = 0;              // the payload's bytes
  };
  using OnMessage = std::function<void(const Message&)>;
  // A listener owner's answer to the name with which a peer connects: the link's options, or an error that
  // refuses it.
  using Accept = std::function<absl::StatusOr<LinkOptions>(const std::string& name)>;

  // The end that connects as `name`, and the end that listens; `peer` is for error messages. Called by
  // Carrier::connect() and LinkListener. If the system has no descriptors left, the link ends at once.
  Link(std::unique_ptr<FramePort> port, const std::string& peer, const std::string& name,
       const LinkOptions& options);
  Link(std::unique_ptr<FramePort> port, const std::string& peer, Accept accept);
  ~Link();
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  // Call before the first progress().
  void on_message(OnMessage hear) { hear_ = std::move(hear); }

  // Sends a message. The header is copied (at most 256 bytes). Errors of Done: InvalidArgument (the payload
  // is larger than the ends agreed on), or why the link ended. May be called before the link is open.
  void send(std::span<const std::byte> header, std::span<const std::byte> payload, Done sent);
  // Receives into `memory` the payload of a message that on_message told. Requires: it is not received yet,
  // and `memory` has its size. While 64 messages wait for this call, the peer's further ones are held back.
  void receive(std::uint64_t message, std::span<std::byte> memory, Done received);

  // Does everything that is possible without waiting. OK, or why the link ended, after all callbacks:
  // Unavailable (peer lost or silent), DeadlineExceeded (not connected in time), FailedPrecondition
  // (refused), DataLoss (forged or malformed), ResourceExhausted (no descriptors).
  absl::Status progress();
  // Destroys links together: their sent messages get the same time to arrive as those of a single link.
  static void close(std::vector<std::unique_ptr<Link>> links);
  // Ends the link at once: no more memory is touched, and there are no more callbacks. Not to be called from
  // a callback of the link.
  void abandon();
  // True once both ends know each other.
  bool open() const { return state_ == State::kOpen; }
  // The peer's name; known when open, empty if this end connected.
  const std::string& peer_name() const { return peer_name_; }
  // The payloads received so far, and their speed.
  const Received& received() const { return meter_.so_far(); }

  // Readable when there is something to do, provided arm() returned true after the last progress().
  int fd() const { return poll_.get(); }
  bool arm();
  // Sleeps until there is something to do, at most until `limit`.
  void wait(std::chrono::milliseconds limit);

 private:
  friend class LinkListener;
  friend class LinkDialer;

  // kRefused: the peer has been told that it is refused, and gets time to read it.
  enum class State { kHello, kReady, kOpen, kRefused, kEnded };
  struct Outgoing {
    std::vector<std::byte> header;
    std::span<const std::byte> payload;
    Done done;
    bool accepted = false;
    std::size_t offset = 0;  // the bytes that were posted
    int in_flight = 0;       // frames with parts of the payload
  };
  struct Incoming {
    std::size_t bytes = 0;
    std::vector<std::byte> small;  // the payload, if it came with the offer
    bool taken = false;
    std::span<std::byte> memory;
    Done done;
    std::size_t begun = 0;   // bytes that have begun to come
    std::size_t landed = 0;  // bytes that have come
  };

  void watch();
  static void finish(std::span<Link* const> links);
  absl::Status may_come(FrameKind kind) override;
  absl::StatusOr<std::span<std::byte>> place(const FrameHead& chunk, std::size_t data_bytes) override;
  absl::Status came(const FrameHead& head, std::span<const std::byte> header,
                    std::span<const std::byte> data) override;
  void posted(FrameKind kind, std::uint64_t message) override;
  void failed(const absl::Status& why) override;

  std::vector<std::byte> say_hello(const std::string& text);
  absl::Status hear_answer(const Hello& hello);
  absl::Status answer(const Hello& hello);
  void get_ready();
  absl::Status hear_offer(const FrameHead& head, std::span<const std::byte> header,
                          std::span<const std::byte> data);
  absl::Status hear_accept(std::uint64_t message);
  void hear_chunk(std::uint64_t message, std::size_t bytes);

  void post_offers();
  bool chunk_is_due() const;
  void post_chunk();
  void finish_if_sent(std::uint64_t message);
  void advance();
  void keep_time();
  void end();
  void tell(Done done, const absl::Status& status);

  const std::string peer_;
  const bool connects_;
  Accept accept_;
  LinkOptions options_;
  State state_ = State::kHello;
  absl::Status why_;  // why it ends, or ended
  const std::chrono::steady_clock::time_point began_;
  // The last look, and the first one after this end stood still: it heard nothing then, and the peer may have stood still
  // too.
  std::chrono::steady_clock::time_point looked_, listens_since_;
  FileDescriptor timer_;
  FileDescriptor poll_;
  OnMessage hear_;
  std::deque<std::function<void()>> events_;

  std::vector<std::byte> my_hello_;
  std::vector<std::byte> peers_hello_;
  std::string peer_name_;
  std::size_t most_to_send_ = 0;

  std::deque<Outgoing> waiting_;                // not offered yet
  std::map<std::uint64_t, Outgoing> outgoing_;  // offered
  std::deque<std::uint64_t> accepted_;          // with chunks to be posted
  std::uint64_t next_out_ = 0;
  int offered_ = 0;  // messages offered and not accepted
  int chunks_in_flight_ = 0;
  std::map<std::uint64_t, Incoming> incoming_;
  std::uint64_t next_in_ = 0;
  int untaken_ = 0;
  LinkMeter meter_;

  FrameStream frames_;  // destroyed first, so that it calls nothing that is gone
};

}  // namespace paceline::links
