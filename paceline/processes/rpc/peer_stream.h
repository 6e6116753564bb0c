// The coordinator's end of one peer's stream. gRPC's threads call the reactor; messages and the end of the
// stream are posted to the event loop, on which everything else lives. The messages of a peer on this host go over a
// local socket (local_socket.h), which the loop reads itself.
//
// The waiting messages of a peer are limited by their memory: while 1 MB of its messages is not taken, the
// next one is not read, and a peer that leaves more than 64 MB unread counts as gone.
//
// Lifetime: gRPC keeps one until its stream has ended and OnDone was called; the coordinator may hold it
// longer. These are two real owners, hence shared_ptr.
#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <grpcpp/grpcpp.h>

#include "paceline/base/event_loop.h"
#include "paceline/formats/wire/paceline.pb.h"
#include "paceline/processes/rpc/local_peer.h"
#include "paceline/processes/rpc/local_socket.h"
#include "paceline/processes/rpc/stream_places.h"

namespace paceline::rpc {

template <class In, class Out>
class PeerStream final : public grpc::ServerBidiReactor<In, Out>,
                         public std::enable_shared_from_this<PeerStream<In, Out>> {
 public:
  using Pointer = std::shared_ptr<PeerStream>;

  // Hears the events of the stream, on the event loop. `closed` comes once, last.
  class Listener {
   public:
    virtual ~Listener() = default;
    virtual void received(const Pointer& stream, In message) = 0;
    virtual void closed(const Pointer& stream) = 0;
  };

  // `loop`, `listener` and the call's context outlive the stream, which keeps `place` until gRPC is done with
  // it.
  static PeerStream* start(EventLoop& loop, Listener& listener, grpc::CallbackServerContext& context,
                           StreamPlaces::Place place) {
    auto stream = std::make_shared<PeerStream>(Token{}, loop, listener, context);
    stream->self_ = stream;
    stream->place_ = std::move(place);
    stream->take_offer(context);
    stream->StartSendInitialMetadata();  // the peer waits for the answer to its offer
    stream->StartRead(&stream->incoming_);
    return stream.get();
  }

  // The other side's address.
  const std::string& peer() const { return peer_; }

  // Sends a message, from any thread. Messages after the end of the stream are dropped.
  void send(Out message) {
    if (!queue(std::move(message))) context_.TryCancel();
  }

  // Sends the last order, and ends the stream.
  void send_disconnect(const wire::Disconnect& disconnect) {
    Out order;
    *order.mutable_disconnect() = disconnect;
    send(std::move(order));
    close();
  }

  // Ends the stream once all messages sent before have left.
  void close() {
    const std::lock_guard lock(mutex_);
    finishing_ = true;
    finish_if_idle();
  }

  void OnReadDone(bool ok) override {
    if (!ok) {
      close();  // the peer is gone, or says no more: messages under way still leave
      return;
    }
    // This counts the memory, not the bytes that came: a few bytes can make many empty parts.
    const std::size_t bytes = incoming_.SpaceUsedLong() + kTaskBytes;
    {
      const std::lock_guard lock(mutex_);
      untaken_ += bytes;  // counted before the loop can take them
    }
    loop_.post([self = self_, message = std::move(incoming_), bytes]() mutable {
      self->listener_.received(self, std::move(message));
      self->taken(bytes);
    });
    incoming_ = In();
    const std::lock_guard lock(mutex_);
    paused_ = untaken_ >= kMostUntaken;
    if (!paused_ && !finished_) this->StartRead(&incoming_);
  }

  // gRPC calls this even while nothing is read.
  void OnCancel() override {
    if (local_) return local_ended();
    close();
  }

  void OnWriteDone(bool ok) override {
    const std::lock_guard lock(mutex_);
    unread_ -= outgoing_.front().bytes;
    outgoing_.pop_front();
    if (!ok) {
      outgoing_.clear();
      finishing_ = true;
    }
    if (!outgoing_.empty()) this->StartWrite(&outgoing_.front().message);
    finish_if_idle();
  }

  void OnDone() override {
    place_.reset();
    loop_.post([self = std::move(self_)] {
      if (self->local_) self->local_->take_last();
      self->listener_.closed(self);
    });
  }

 private:
  struct Token {};

 public:
  PeerStream(Token, EventLoop& loop, Listener& listener, const grpc::CallbackServerContext& context)
      : loop_(loop), listener_(listener), context_(context), peer_(context.peer()) {}

 private:
  static constexpr std::size_t kMostUntaken = 1 << 20;  // one message more may be untaken
  static constexpr std::size_t kMostUnread = 64 << 20;
  static constexpr std::size_t kTaskBytes = 256;  // memory of the event loop for each message

  void take_offer(grpc::CallbackServerContext& context) {
    const auto& said = context.client_metadata();
    const auto offer = said.find(kLocalOfferKey);
    if (offer == said.end()) return;
    auto socket = rpc::take_offer({offer->second.data(), offer->second.size()});
    if (!socket) return;
    local_.emplace(*std::move(socket), loop_,
                   LocalPeer::Told{.message = [this](std::string_view bytes) { return take_local(bytes); },
                                   .writable = [this] { send_more(); },
                                   .ended = [this] { local_ended(); }});
    loop_.post([self = self_] { self->local_->watch(); });
    context.AddInitialMetadata(kLocalOfferKey, kLocalTaken);
  }

  // False if the message cannot be read.
  bool take_local(std::string_view bytes) {
    In message;
    if (!message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return false;
    listener_.received(this->shared_from_this(), std::move(message));
    return true;
  }

  // Called on the event loop when a message was taken.
  void taken(std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    untaken_ -= bytes;
    if (!paused_ || untaken_ > kMostUntaken / 2) return;
    paused_ = false;
    if (!finished_) this->StartRead(&incoming_);
  }

  // False if the peer has left too much unread.
  bool queue(Out message) {
    const std::lock_guard lock(mutex_);
    if (finishing_) return true;
    const std::size_t bytes = message.ByteSizeLong();
    if (local_) return queue_local(message, bytes);
    unread_ += bytes;
    finishing_ = unread_ > kMostUnread;
    if (finishing_) return false;
    outgoing_.push_back({std::move(message), bytes});
    if (outgoing_.size() == 1) this->StartWrite(&outgoing_.front().message);
    return true;
  }

  // Requires: the lock. False if the peer has left too much unread, or if the message is too long.
  bool queue_local(const Out& message, std::size_t bytes) {
    finishing_ = bytes > kLongestFrame;
    if (finishing_) return false;
    took_local(local_->send(framed(message, bytes)));
    finishing_ |= local_->unsent() > kMostUnread;
    return local_->unsent() <= kMostUnread;
  }

  void send_more() {
    const std::lock_guard lock(mutex_);
    if (local_->unsent() > 0) took_local(local_->send_more());
  }

  // Requires: the lock.
  void took_local(bool open) {
    local_open_ &= open;
    finishing_ |= !open;
    finish_if_idle();
  }

  void local_ended() {
    const std::lock_guard lock(mutex_);
    took_local(false);
  }

  // Requires: the lock. gRPC wants one Finish, and no write under way.
  void finish_if_idle() {
    const bool idle = outgoing_.empty() && (!local_ || !local_open_ || local_->unsent() == 0);
    if (!finishing_ || !idle || std::exchange(finished_, true)) return;
    if (local_) local_->close();
    this->Finish(grpc::Status::OK);
  }

  EventLoop& loop_;
  Listener& listener_;
  const grpc::CallbackServerContext& context_;  // valid while the stream has not ended
  const std::string peer_;
  StreamPlaces::Place place_;
  std::optional<LocalPeer> local_;  // the way of all messages, if the peer is on this host
  In incoming_;
  struct Outgoing {
    Out message;
    std::size_t bytes;
  };
  std::mutex mutex_;               // guards what follows
  std::deque<Outgoing> outgoing_;  // the front is being written
  std::size_t unread_ = 0;         // the bytes of these messages
  std::size_t untaken_ = 0;        // bytes of messages on the event loop
  bool local_open_ = true;         // the local socket's other end is not closed
  bool paused_ = false;            // nothing is read
  bool finishing_ = false;         // nothing more is sent
  bool finished_ = false;          // Finish was called
  std::shared_ptr<PeerStream> self_;
};

template <class In, class Out>
class RefusedStream final : public grpc::ServerBidiReactor<In, Out> {
 public:
  explicit RefusedStream(const grpc::Status& why) { this->Finish(why); }
  void OnDone() override { delete this; }
};

// A stream without a word, until the server that it came to is gone.
template <class In, class Out>
class HeldStream final : public grpc::ServerBidiReactor<In, Out> {
 public:
  explicit HeldStream(StreamPlaces::Place place) : place_(std::move(place)) {}
  void OnCancel() override { this->Finish(grpc::Status::CANCELLED); }
  void OnDone() override { delete this; }

 private:
  const StreamPlaces::Place place_;
};

// The status of a call that finds all places taken.
inline grpc::Status no_place_left() {
  return {grpc::StatusCode::RESOURCE_EXHAUSTED, "more processes are connected than this job has"};
}

// Starts a stream, or refuses the call if all places are taken.
template <class Stream, class In, class Out>
grpc::ServerBidiReactor<In, Out>* start_stream(EventLoop& loop, typename Stream::Listener& listener,
                                               grpc::CallbackServerContext& context, StreamPlaces& places) {
  StreamPlaces::Place place = places.take();
  if (place != nullptr) return Stream::start(loop, listener, context, std::move(place));
  return new RefusedStream<In, Out>(no_place_left());
}

// Holds a stream, or refuses the call if all places are taken.
template <class In, class Out>
grpc::ServerBidiReactor<In, Out>* hold_stream(StreamPlaces& places) {
  StreamPlaces::Place place = places.take();
  if (place != nullptr) return new HeldStream<In, Out>(std::move(place));
  return new RefusedStream<In, Out>(no_place_left());
}

}  // namespace paceline::rpc
