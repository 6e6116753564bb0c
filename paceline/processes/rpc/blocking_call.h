// A call of many messages that a thread of its own serves, for work that waits for a disk: gRPC's threads
// must not wait.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include <grpcpp/grpcpp.h>

#include "paceline/processes/rpc/stream_places.h"

namespace paceline::rpc {

// The object owns itself until gRPC is done with it.
template <class In, class Out>
class BlockingCall final : public grpc::ServerBidiReactor<In, Out> {
 public:
  // The work of a call. Its result ends the call.
  using Body = std::function<grpc::Status(BlockingCall&)>;

  // Starts a call. `context` and everything that `body` uses outlive the call. The call keeps `place` until
  // gRPC is done with it.
  static BlockingCall* start(grpc::CallbackServerContext& context, StreamPlaces::Place place, Body body) {
    auto* call = new BlockingCall(context, std::move(place), std::move(body));
    std::thread([call] { call->Finish(call->body_(*call)); }).detach();  // Finish may delete the call
    return call;
  }

  // Both are for the body, and wait. False if the other side has nothing more to say or is gone. One thread
  // may read while another one writes.
  bool read(In& message) {
    this->StartRead(&message);
    return wait(read_);
  }
  bool write(const Out& message) {
    this->StartWrite(&message);
    return wait(written_);
  }

  // Ends the waiting of the other thread.
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
  std::optional<bool> read_, written_;  // results of the operations that were under way
};

}  // namespace paceline::rpc
