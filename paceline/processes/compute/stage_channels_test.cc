#include "paceline/processes/compute/stage_channels.h"

#include <gtest/gtest.h>

namespace paceline::compute {
namespace {

absl::StatusOr<StageChannels> open(const wire::Role& role) {
  const channels::ChannelSizes size{.from_creator = {.slots = 2, .slot_bytes = 64},
                                    .from_opener = {.slots = 2, .slot_bytes = 64}};
  StageTraffic traffic;
  return StageChannels::open(role, {size, size, size}, nullptr, traffic, [](auto) { return true; });
}

// Turn 1 of the first of two stages on two and four devices: it meets turns 1 and 3.
wire::Role second_of_two() {
  wire::Role role;
  role.set_stage(0);
  role.set_turn(1);
  for (const int width : {2, 4}) role.add_widths(width);
  for (const int turn : {1, 3}) role.add_next()->set_turn(turn);
  return role;
}

TEST(StageChannels, LeadToTheDevicesThatAreMet) {
  const auto channels = open(second_of_two());
  ASSERT_TRUE(channels.ok()) << channels.status();
  EXPECT_EQ(channels->next_paths().size(), 2u);
}

TEST(StageChannels, AWayThatIsMissingIsAnError) {
  wire::Role role = second_of_two();
  role.mutable_next()->RemoveLast();
  EXPECT_EQ(open(role).status().message(), "the coordinator gave no way to turn 3 of 4");
  role = second_of_two();
  role.set_stage(1);  // no device is before the stage
  EXPECT_EQ(open(role).status().message(), "the coordinator gave no way to turn 1 of 2");
}

TEST(StageChannels, AWayToNobodyIsAnError) {
  for (const int turn : {-1, 4}) {
    wire::Role role = second_of_two();
    role.add_next()->set_turn(turn);
    EXPECT_TRUE(absl::IsInvalidArgument(open(role).status())) << turn;
  }
}

}  // namespace
}  // namespace paceline::compute
