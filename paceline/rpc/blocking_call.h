// A call of many messages that its own thread serves, for work that waits for a disk: gRPC's threads must not
// wait.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include <grpcpp/grpcpp.h>

#include "paceline/rpc/stream_places.h"

namespace paceline::rpc {

// Owns itself until gRPC is done with it.
template <class In, class Out>
class BlockingCall final : public grpc::ServerBidiReactor<In, Out> {
 public:
  // How the call ends.
  using Body = std::function<grpc::Status(BlockingCall&)>;

  // What `body` uses outlives the call, and so does its context. It has that place while gRPC has it.
  static BlockingCall* start(grpc::CallbackServerContext& context, StreamPlaces::Place place, Body body) {
    auto* call = new BlockingCall(context, std::move(place), std::move(body));
    std::thread([call] { call->Finish(call->body_(*call)); }).detach();  // Finish may be the end of it
    return call;
  }

  // For the body: waits. False when the other side has nothing more to say, or is gone. One thread may read
  // while another one writes.
  bool read(In& message) {
    this->StartRead(&message);
    return wait(read_);
  }
  bool write(const Out& message) {
    this->StartWrite(&message);
    return wait(written_);
  }

  // Ends what the other thread waits for.
  void cancel() { context_.TryCancel(); }

  void OnReadDone(bool ok) override { done(read_, ok); }
  void OnWriteDone(bool ok) override { done(written_, ok); }
  void OnDone() override { delete this; }

 private:
  BlockingCall(grpc::CallbackServerContext& context, StreamPlaces::Place place, Body body)
      : context_(context), place_(std::move(place)), body_(std::move(body)) {}

  void done(std::optional<bool>& what, bool ok) {
    const std::lock_guard lock(mutex_);
    what = ok;
    changed_.notify_all();
  }
  bool wait(std::optional<bool>& what) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return what.has_value(); });
    return *std::exchange(what, std::nullopt);
  }

  grpc::CallbackServerContext& context_;
  const StreamPlaces::Place place_;
  const Body body_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<bool> read_, written_;  // how what was under way ended
};

}  // namespace paceline::rpc
