// A process's end of its stream to the coordinator. A thread of its own reads, so that an order is received
// at once, even if the process is busy.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include <grpcpp/grpcpp.h>

namespace paceline::rpc {

template <class Out, class In>
class Connection {
 public:
  using Stream = grpc::ClientReaderWriter<Out, In>;

  // `open` starts the call on a context, e.g. stub->Work(context).
  explicit Connection(const std::function<std::unique_ptr<Stream>(grpc::ClientContext*)>& open)
      : stream_(open(&context_)), reader_([this] { read(); }) {}
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  ~Connection() {
    context_.TryCancel();
    reader_.join();
  }

  // Sends a message, from any thread. False if the stream has ended.
  bool send(const Out& message) {
    const std::lock_guard lock(writing_);
    return stream_->Write(message);
  }

  // Waits for the next order and returns it. Nothing if the stream has ended and all orders were taken.
  std::optional<In> next() {
    std::unique_lock lock(mutex_);
    arrived_.wait(lock, [this] { return ended_ || !orders_.empty(); });
    if (orders_.empty()) return std::nullopt;
    In order = std::move(orders_.front());
    orders_.pop_front();
    return order;
  }

  // Waits until an order is here or the stream has ended, but no longer than `limit`. True if there is an
  // order.
  bool wait(std::chrono::nanoseconds limit) {
    std::unique_lock lock(mutex_);
    return arrived_.wait_for(lock, limit, [this] { return ended_ || !orders_.empty(); });
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
  std::mutex writing_;  // one Write at a time
  std::mutex mutex_;    // guards what follows
  std::condition_variable arrived_;
  std::deque<In> orders_;
  std::function<void()> on_end_;
  bool ended_ = false;
  grpc::Status end_;
  std::thread reader_;
};

}  // namespace paceline::rpc
