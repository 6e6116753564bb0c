// A process's end of its stream to the coordinator. If both are on one host, messages go over a local socket
// (local_socket.h), which the thread that takes the orders reads itself. Otherwise a thread of the stream's own reads
// them.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include <grpcpp/grpcpp.h>

#include "paceline/base/wake_event.h"
#include "paceline/processes/rpc/local_client.h"
#include "paceline/processes/rpc/local_socket.h"

namespace paceline::rpc {

template <class Out, class In>
class Connection {
 public:
  using Stream = grpc::ClientReaderWriter<Out, In>;

  // `open` starts the call on a context, e.g. stub->Work(context).
  explicit Connection(const std::function<std::unique_ptr<Stream>(grpc::ClientContext*)>& open) {
    const auto offer = LocalOffer::make();
    if (offer.ok()) context_.AddMetadata(kLocalOfferKey, offer->text());
    stream_ = open(&context_);
    if (offer.ok()) take_answer(*offer);
    reader_ = std::thread([this] { read(); });
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  ~Connection() {
    context_.TryCancel();
    reader_.join();
  }

  // Whether the coordinator is on this host: it gets what was sent even if this process dies.
  bool is_local() const { return local_.has_value(); }

  // Sends a message, from any thread. False if the stream has ended; a message that is too long ends it.
  bool send(const Out& message) {
    const std::lock_guard lock(writing_);
    if (!local_) return stream_->Write(message);
    const std::size_t size = message.ByteSizeLong();
    if (size <= kLongestFrame) return local_->send(framed(message, size));
    context_.TryCancel();
    return false;
  }

  // Orders are taken by one thread: next() and wait().

  // Waits for the next order and returns it. Nothing if the stream has ended and all orders were taken.
  std::optional<In> next() {
    std::unique_lock lock(mutex_);
    if (local_) {
      if (orders_.empty()) take_local(lock, std::nullopt);
    } else {
      arrived_.wait(lock, [this] { return ended_ || !orders_.empty(); });
    }
    if (orders_.empty()) return std::nullopt;
    In order = std::move(orders_.front());
    orders_.pop_front();
    return order;
  }

  // Waits until an order is here or the stream has ended, but no longer than `limit`. True if one of both is so.
  bool wait(std::chrono::nanoseconds limit) {
    const auto until = std::chrono::steady_clock::now() + limit;
    std::unique_lock lock(mutex_);
    if (local_ && orders_.empty()) take_local(lock, limit);
    // The local socket's end is seen a moment before the stream's.
    return arrived_.wait_until(lock, until, [this] { return ended_ || !orders_.empty(); });
  }

  // True if the stream has ended: the coordinator is gone, or has finished with this process.
  bool ended() {
    const std::lock_guard lock(mutex_);
    return ended_;
  }

  // Sets a function that is called once when the stream has ended, from any thread. It must not wait. With it
  // an owner that is busy with an order learns that the order is obsolete. Empty: no call from now on.
  void on_end(std::function<void()> tell) {
    const std::lock_guard lock(mutex_);
    on_end_ = std::move(tell);
    if (ended_ && on_end_) on_end_();
  }

  // Waits for the end of the stream, and returns how it ended. OK if the coordinator ended it.
  grpc::Status end() {
    std::unique_lock lock(mutex_);
    arrived_.wait(lock, [this] { return ended_; });
    return end_;
  }

 private:
  void take_answer(const LocalOffer& offer) {
    stream_->WaitForInitialMetadata();
    if (context_.GetServerInitialMetadata().count(kLocalOfferKey) == 0) return;
    auto socket = offer.accept();
    auto event = WakeEvent::create();
    if (socket.ok() && event.ok()) {
      local_.emplace(*std::move(socket), *std::move(event));
    } else {
      context_.TryCancel();  // the coordinator sends everything that way
    }
  }

  // Takes the next order from the local socket, without the lock while it waits.
  void take_local(std::unique_lock<std::mutex>& lock, std::optional<std::chrono::nanoseconds> limit) {
    lock.unlock();
    const auto bytes = local_->next(limit);
    In order;
    const bool whole = bytes && order.ParseFromArray(bytes->data(), static_cast<int>(bytes->size()));
    if (bytes && !whole) context_.TryCancel();
    lock.lock();
    if (whole) orders_.push_back(std::move(order));
  }

  void read() {
    In order;
    while (stream_->Read(&order)) {
      {
        const std::lock_guard lock(mutex_);
        orders_.push_back(std::move(order));
      }
      arrived_.notify_all();
      order = In();
    }
    if (local_) local_->end();  // a thread that waits to send has this lock
    grpc::Status end;
    {
      const std::lock_guard lock(writing_);
      end = stream_->Finish();
    }
    {
      const std::lock_guard lock(mutex_);
      end_ = std::move(end);
      ended_ = true;
      if (on_end_) on_end_();
    }
    arrived_.notify_all();
  }

  grpc::ClientContext context_;
  std::unique_ptr<Stream> stream_;
  std::optional<LocalClient> local_;  // the way of all messages, if the coordinator is on this host
  std::mutex writing_;                // one message at a time
  std::mutex mutex_;                  // guards what follows
  std::condition_variable arrived_;
  std::deque<In> orders_;
  std::function<void()> on_end_;
  bool ended_ = false;
  grpc::Status end_;
  std::thread reader_;
};

}  // namespace paceline::rpc
