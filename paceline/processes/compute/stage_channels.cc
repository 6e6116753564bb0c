#include "paceline/processes/compute/stage_channels.h"

#include <algorithm>
#include <utility>

#include <absl/strings/str_cat.h>

#include "paceline/base/stage_turns.h"
#include "paceline/base/status_macros.h"
#include "paceline/processes/rpc/link_keys.h"
#include "paceline/transport/channels/ring_channel.h"

namespace paceline::compute {

namespace {

// How often a wait for a neighbour looks up whether it is to end.
constexpr std::chrono::milliseconds kPatience{20};

using channels::Channel;
using wire::StageLink;

// Over links; the coordinator says which end connects.
absl::StatusOr<std::unique_ptr<Channel>> linked(const StageLink& link, const channels::ChannelSizes& sizes,
                                                links::LinkChannels& links, StageTraffic& traffic) {
  PACELINE_ASSIGN_OR_RETURN(const links::LinkKeys keys, rpc::link_keys(link.send_key(), link.receive_key()));
  auto received = traffic.received(link);
  if (link.address().empty())
    return traffic.counted(links.expect(link.name(), sizes, keys, std::move(received)), link);
  return traffic.counted(links.connect(link.address(), link.name(), sizes, keys, std::move(received)), link);
}

// This end of a way that another one may have begun.
absl::StatusOr<std::unique_ptr<Channel>> opened(const wire::StageWay& way,
                                                const channels::ChannelSizes& sizes,
                                                links::LinkChannels* links, StageTraffic& traffic) {
  if (way.has_link()) return linked(way.link(), sizes, *links, traffic);
  PACELINE_ASSIGN_OR_RETURN(auto ring, channels::RingChannel::open(way.path(), sizes));
  return std::make_unique<channels::RingChannel>(std::move(ring));
}

// This end of a way that it begins. `paths`: gets that of the channel in memory.
absl::StatusOr<std::unique_ptr<Channel>> created(const wire::StageWay& way,
                                                 const channels::ChannelSizes& sizes,
                                                 links::LinkChannels* links, StageTraffic& traffic,
                                                 std::vector<std::string>& paths) {
  paths.emplace_back();
  if (way.has_link()) return linked(way.link(), sizes, *links, traffic);
  PACELINE_ASSIGN_OR_RETURN(auto ring, channels::RingChannel::create(sizes));
  paths.back() = ring.path();
  return std::make_unique<channels::RingChannel>(std::move(ring));
}

template <class Ways>
bool any_link(const Ways& ways) {
  return std::any_of(ways.begin(), ways.end(), [](const wire::StageWay& way) { return way.has_link(); });
}

// Room for the devices of a stage, and whether that is one of them.
absl::Status check_turn(const wire::StageWay& way, std::size_t width) {
  if (way.turn() >= 0 && static_cast<std::size_t>(way.turn()) < width) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the coordinator gave a way to turn ", way.turn(), " of ", width));
}

// A way to each device of a neighbouring stage that this one has micro-batches in common with.
absl::Status check_all_met(const std::vector<std::unique_ptr<Channel>>& neighbours, const wire::Role& role) {
  const auto turn = static_cast<std::size_t>(role.turn());
  const auto width = static_cast<std::size_t>(role.widths(role.stage()));
  for (std::size_t other = 0; other < neighbours.size(); ++other) {
    if (neighbours[other] == nullptr && meet(turn, width, other, neighbours.size()))
      return absl::InvalidArgumentError(
          absl::StrCat("the coordinator gave no way to turn ", other, " of ", neighbours.size()));
  }
  return absl::OkStatus();
}

}  // namespace

bool has_links(const wire::Role& role) {
  return any_link(role.previous()) || any_link(role.next()) || any_link(role.gradients()) ||
         (role.has_home() && role.home().has_link());
}

absl::StatusOr<StageChannels> StageChannels::open(const wire::Role& role, const Sizes& sizes,
                                                  links::LinkChannels* links, StageTraffic& traffic,
                                                  Interrupted interrupted) {
  StageChannels made;
  made.interrupted_ = std::move(interrupted);
  const auto width = [&](int stage) { return static_cast<std::size_t>(role.widths(stage)); };
  if (role.stage() > 0) made.previous_.resize(width(role.stage() - 1));
  for (const wire::StageWay& way : role.previous()) {
    PACELINE_RETURN_IF_ERROR(check_turn(way, made.previous_.size()));
    PACELINE_ASSIGN_OR_RETURN(made.previous_[static_cast<std::size_t>(way.turn())],
                              opened(way, sizes.previous, links, traffic));
  }
  PACELINE_RETURN_IF_ERROR(check_all_met(made.previous_, role));
  if (role.stage() + 1 < role.widths_size()) made.next_.resize(width(role.stage() + 1));
  for (const wire::StageWay& way : role.next()) {
    PACELINE_RETURN_IF_ERROR(check_turn(way, made.next_.size()));
    PACELINE_ASSIGN_OR_RETURN(made.next_[static_cast<std::size_t>(way.turn())],
                              created(way, sizes.next, links, traffic, made.next_paths_));
  }
  PACELINE_RETURN_IF_ERROR(check_all_met(made.next_, role));
  if (role.has_home()) {
    PACELINE_ASSIGN_OR_RETURN(made.home_, opened(role.home(), sizes.gradient, links, traffic));
  }
  for (const wire::StageWay& way : role.gradients()) {
    PACELINE_ASSIGN_OR_RETURN(auto channel,
                              created(way, sizes.gradient, links, traffic, made.gradient_paths_));
    made.gradients_.push_back({std::move(channel), way.turn() > 0});
  }
  if (any_link(role.next()) || any_link(role.gradients())) made.address_ = links->address();
  return made;
}

template <class Bytes>
absl::StatusOr<std::optional<Bytes>> StageChannels::wait(
    const std::function<absl::StatusOr<std::optional<Bytes>>(std::chrono::nanoseconds)>& look) const {
  while (true) {
    const auto found = look(kPatience);
    const bool over = absl::IsUnavailable(found.status());
    if (!found.ok() && !over) return found.status();
    if (found.ok() && *found) return *found;
    if (interrupted_(over ? kWordOfIt : std::chrono::nanoseconds::zero())) return std::nullopt;
    if (over)
      return absl::AbortedError(
          absl::StrCat("another device of the replica is out of reach: ", found.status().message()));
  }
}

absl::StatusOr<std::optional<std::span<std::byte>>> StageChannels::room(Channel& to) const {
  return wait<std::span<std::byte>>([&](std::chrono::nanoseconds limit) { return to.room(limit); });
}

absl::StatusOr<std::optional<std::span<const std::byte>>> StageChannels::message(Channel& from) const {
  return wait<std::span<const std::byte>>(
      [&](std::chrono::nanoseconds limit) { return from.message(limit); });
}

}  // namespace paceline::compute
