// The coordinator's end of one peer's stream. gRPC's threads call the reactor; what they bring is posted to
// the event loop, on which everything else lives.
//
// Lifetime: gRPC keeps one until its stream has ended and OnDone was called; the coordinator may hold it
// longer. That is the one place where two owners are real, hence shared_ptr.
#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include <grpcpp/grpcpp.h>

#include "paceline/base/event_loop.h"

namespace paceline::rpc {

template <class In, class Out>
class PeerStream final : public grpc::ServerBidiReactor<In, Out> {
 public:
  using Pointer = std::shared_ptr<PeerStream>;

  // What happens on the stream; called on the event loop. `closed` comes once, last.
  class Listener {
   public:
    virtual ~Listener() = default;
    virtual void received(const Pointer& stream, const In& message) = 0;
    virtual void closed(const Pointer& stream) = 0;
  };

  // `loop` and `listener` outlive the stream. `peer`: the other side's address.
  static PeerStream* start(EventLoop& loop, Listener& listener, std::string peer) {
    auto stream = std::make_shared<PeerStream>(Token{}, loop, listener, std::move(peer));
    stream->self_ = stream;
    stream->StartRead(&stream->incoming_);
    return stream.get();
  }

  const std::string& peer() const { return peer_; }
  // Whether a message ever came; on the event loop.
  bool spoke() const { return spoke_; }

  // From any thread. Dropped when the stream has ended.
  void send(Out message) {
    const std::lock_guard lock(mutex_);
    if (finishing_) return;
    outgoing_.push_back(std::move(message));
    if (outgoing_.size() == 1) this->StartWrite(&outgoing_.front());
  }

  // Ends the stream once everything sent before has left.
  void close() {
    const std::lock_guard lock(mutex_);
    finishing_ = true;
    finish_if_idle();
  }

  void OnReadDone(bool ok) override {
    if (!ok) {
      close();  // the peer is gone, or says no more: what is on its way still leaves
      return;
    }
    loop_.post([self = self_, message = std::move(incoming_)] {
      self->spoke_ = true;
      self->listener_.received(self, message);
    });
    incoming_ = In();
    this->StartRead(&incoming_);
  }

  void OnWriteDone(bool ok) override {
    const std::lock_guard lock(mutex_);
    outgoing_.pop_front();
    if (!ok) {
      outgoing_.clear();
      finishing_ = true;
    }
    if (!outgoing_.empty()) this->StartWrite(&outgoing_.front());
    finish_if_idle();
  }

  void OnDone() override {
    loop_.post([self = std::move(self_)] { self->listener_.closed(self); });
  }

 private:
  struct Token {};

 public:
  PeerStream(Token, EventLoop& loop, Listener& listener, std::string peer)
      : loop_(loop), listener_(listener), peer_(std::move(peer)) {}

 private:
  // Requires: the lock. gRPC wants one Finish, and no write under way.
  void finish_if_idle() {
    if (finishing_ && outgoing_.empty() && !std::exchange(finished_, true)) this->Finish(grpc::Status::OK);
  }

  EventLoop& loop_;
  Listener& listener_;
  const std::string peer_;
  bool spoke_ = false;  // of the event loop's thread
  In incoming_;
  std::mutex mutex_;          // guards what follows
  std::deque<Out> outgoing_;  // the front is being written
  bool finishing_ = false;    // nothing more is taken
  bool finished_ = false;     // Finish was called
  std::shared_ptr<PeerStream> self_;
};

// Ends a call before it began.
template <class In, class Out>
class RefusedStream final : public grpc::ServerBidiReactor<In, Out> {
 public:
  explicit RefusedStream(const grpc::Status& why) { this->Finish(why); }
  void OnDone() override { delete this; }
};

}  // namespace paceline::rpc
