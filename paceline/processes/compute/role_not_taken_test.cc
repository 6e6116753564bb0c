#include "paceline/processes/compute/role_not_taken.h"

#include <optional>
#include <string>

#include <gtest/gtest.h>

#include "paceline/processes/compute/stage_channels.h"
#include "paceline/transport/channels/ring_channel.h"

namespace paceline::compute {
namespace {

channels::ChannelSizes sizes_of(std::int64_t bytes) {
  const channels::ChannelSize size{.slots = 2, .slot_bytes = bytes};
  return {size, size};
}

bool an_order(std::chrono::nanoseconds) { return true; }
bool no_order(std::chrono::nanoseconds) { return false; }

// The second of two stages, whose channel to the first one is at that path.
wire::Role second_stage(const std::string& path) {
  wire::Role role;
  role.set_stage(1);
  for (int stage = 0; stage < 2; ++stage) role.add_widths(1);
  role.add_previous()->set_path(path);
  return role;
}

absl::Status opening(const wire::Role& role, std::int64_t bytes) {
  StageTraffic traffic;
  const StageChannels::Sizes sizes{
      .previous = sizes_of(bytes), .next = sizes_of(bytes), .gradient = sizes_of(bytes)};
  return StageChannels::open(role, sizes, nullptr, traffic, [](std::chrono::nanoseconds) { return false; })
      .status();
}

// The neighbour was in another replica by then, and its next channel has the path of the one before.
TEST(RoleNotTaken, AsTheNeighbourHasTakenItsNextOne) {
  std::optional channel(channels::RingChannel::create(sizes_of(1000)).value());
  const wire::Role role = second_stage(channel->path());
  ASSERT_TRUE(opening(role, 1000).ok());
  channel.reset();
  const absl::Status gone = opening(role, 1000);
  EXPECT_TRUE(absl::IsNotFound(gone)) << gone;
  EXPECT_TRUE(role_not_taken(gone, an_order).ok());
  channel.emplace(channels::RingChannel::create(sizes_of(2000)).value());
  ASSERT_EQ(channel->path(), role.previous(0).path());
  const absl::Status another = opening(role, 1000);
  EXPECT_TRUE(absl::IsInvalidArgument(another)) << another;
  EXPECT_TRUE(role_not_taken(another, an_order).ok());
}

TEST(RoleNotTaken, IsNotWaitedForInSilence) {
  EXPECT_TRUE(absl::IsAborted(role_not_taken(absl::NotFoundError("gone"), no_order)))
      << "to come again as a new one";
  EXPECT_EQ(role_not_taken(absl::InvalidArgumentError("wrong"), no_order),
            absl::InvalidArgumentError("wrong"));
}

}  // namespace
}  // namespace paceline::compute
