#include "paceline/compute/sent_to_stages.h"

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

std::unique_ptr<Channel> SentToStages::counted(std::unique_ptr<Channel> channel,
                                               const wire::StageLink& link) {
  const std::lock_guard lock(mutex_);
  Count& count = counts_[{link.to(), link.carries()}];
  if (count == nullptr) count = std::make_shared<std::atomic<std::int64_t>>(0);
  return std::make_unique<CountedChannel>(std::move(channel), count);
}

void SentToStages::report(wire::Heartbeat& beat) const {
  const std::lock_guard lock(mutex_);
  for (const auto& [who, count] : counts_) {
    wire::SentToStage& sent = *beat.add_sent_to_stages();
    sent.set_worker(who.first);
    sent.set_kind(who.second);
    sent.set_bytes(count->load(std::memory_order_relaxed));
  }
}

}  // namespace paceline::compute
