#include "paceline/processes/compute/stage_traffic.h"

#include <chrono>
#include <cstddef>
#include <optional>
#include <span>

namespace paceline::compute {

namespace {

using channels::Channel;

class CountedChannel final : public Channel {
 public:
  CountedChannel(std::unique_ptr<Channel> channel, std::shared_ptr<std::atomic<std::int64_t>> sent)
      : channel_(std::move(channel)), sent_(std::move(sent)) {}

  absl::StatusOr<std::optional<std::span<std::byte>>> room(std::chrono::nanoseconds timeout) override {
    return channel_->room(timeout);
  }
  void send(std::size_t bytes) override {
    channel_->send(bytes);
    sent_->fetch_add(static_cast<std::int64_t>(bytes), std::memory_order_relaxed);
  }
  absl::StatusOr<std::optional<std::span<const std::byte>>> message(
      std::chrono::nanoseconds timeout) override {
    return channel_->message(timeout);
  }
  void release() override { channel_->release(); }

 private:
  const std::unique_ptr<Channel> channel_;
  const std::shared_ptr<std::atomic<std::int64_t>> sent_;
};

}  // namespace

std::unique_ptr<Channel> StageTraffic::counted(std::unique_ptr<Channel> channel,
                                               const wire::StageLink& link) {
  const std::lock_guard lock(mutex_);
  Count& count = counts_[{link.to(), link.carries()}];
  if (count == nullptr) count = std::make_shared<std::atomic<std::int64_t>>(0);
  return std::make_unique<CountedChannel>(std::move(channel), count);
}

std::shared_ptr<links::ReceivedCount> StageTraffic::received(const wire::StageLink& link) {
  const std::lock_guard lock(mutex_);
  auto& received = received_[link.to()];
  if (received == nullptr) received = std::make_shared<links::ReceivedCount>();
  return received;
}

void StageTraffic::report(wire::Heartbeat& beat) const {
  const std::lock_guard lock(mutex_);
  for (const auto& [who, count] : counts_) {
    wire::SentToStage& sent = *beat.add_sent_to_stages();
    sent.set_worker(who.first);
    sent.set_kind(who.second);
    sent.set_bytes(count->load(std::memory_order_relaxed));
  }
  for (const auto& [worker, count] : received_) {
    const links::Received so_far = count->so_far();
    if (so_far.bytes == 0) continue;
    wire::Received& received = *beat.add_received();
    received.set_worker(worker);
    received.set_bytes(so_far.bytes);
    received.set_busy_ns(so_far.busy.count());
    received.set_times(so_far.times);
  }
}

}  // namespace paceline::compute
