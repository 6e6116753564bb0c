#include "paceline/processes/compute/stage_traffic.h"

#include <array>
#include <optional>
#include <span>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline::compute {
namespace {

using channels::Channel;

// Takes everything.
class Sink final : public Channel {
 public:
  absl::StatusOr<std::optional<std::span<std::byte>>> room(std::chrono::nanoseconds) override {
    return std::optional(std::span<std::byte>(room_));
  }
  void send(std::size_t) override {}
  absl::StatusOr<std::optional<std::span<const std::byte>>> message(std::chrono::nanoseconds) override {
    return std::nullopt;
  }
  void release() override {}

 private:
  std::array<std::byte, 64> room_{};
};

wire::StageLink link_to(const std::string& worker, const std::string& carries) {
  wire::StageLink link;
  link.set_to(worker);
  link.set_carries(carries);
  return link;
}

std::vector<std::string> said(const StageTraffic& traffic) {
  wire::Heartbeat beat;
  traffic.report(beat);
  std::vector<std::string> lines;
  for (const wire::SentToStage& one : beat.sent_to_stages())
    lines.push_back(one.worker() + " " + one.kind() + " " + std::to_string(one.bytes()));
  return lines;
}

TEST(StageTraffic, AddsUpByWorkerAndByWhatIsSent) {
  StageTraffic traffic;
  EXPECT_THAT(said(traffic), testing::IsEmpty());
  {
    const auto next = traffic.counted(std::make_unique<Sink>(), link_to("w1", "activations"));
    const auto home = traffic.counted(std::make_unique<Sink>(), link_to("w1", "gradients"));
    const auto other = traffic.counted(std::make_unique<Sink>(), link_to("w2", "activations"));
    ASSERT_TRUE(next->room({}).ok());
    next->send(10);
    next->send(5);
    home->send(7);
  }
  // This traffic is of another role.
  traffic.counted(std::make_unique<Sink>(), link_to("w1", "activations"))->send(100);
  EXPECT_THAT(said(traffic),
              testing::ElementsAre("w1 activations 115", "w1 gradients 7", "w2 activations 0"));
}

}  // namespace
}  // namespace paceline::compute
