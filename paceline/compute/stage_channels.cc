#include "paceline/compute/stage_channels.h"

#include <utility>

#include <absl/strings/str_cat.h>

#include "paceline/base/status_macros.h"
#include "paceline/channels/ring_channel.h"
#include "paceline/rpc/link_keys.h"

namespace paceline::compute {

namespace {

// How often a wait for a neighbour looks up whether it is to end.
constexpr std::chrono::milliseconds kPatience{20};
// The coordinator knows within so long of a process that is gone or silent.
constexpr std::chrono::seconds kWordOfIt{5};

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

}  // namespace

bool has_links(const wire::Role& role) {
  return role.has_previous() || role.has_next() || role.has_home() || role.gradients_size() > 0;
}

absl::StatusOr<StageChannels> StageChannels::open(const wire::Role& role, const Sizes& sizes,
                                                  links::LinkChannels* links, StageTraffic& traffic,
                                                  Interrupted interrupted) {
  StageChannels made;
  made.interrupted_ = std::move(interrupted);
  if (role.has_previous()) {
    PACELINE_ASSIGN_OR_RETURN(made.previous_, linked(role.previous(), sizes.previous, *links, traffic));
  } else if (role.stage() > 0) {
    PACELINE_ASSIGN_OR_RETURN(auto ring, channels::RingChannel::open(role.previous_path(), sizes.previous));
    made.previous_ = std::make_unique<channels::RingChannel>(std::move(ring));
  }
  if (role.has_next()) {
    PACELINE_ASSIGN_OR_RETURN(made.next_, linked(role.next(), sizes.next, *links, traffic));
  } else if (role.stage() < role.cuts_size()) {
    PACELINE_ASSIGN_OR_RETURN(auto ring, channels::RingChannel::create(sizes.next));
    made.next_path_ = ring.path();
    made.next_ = std::make_unique<channels::RingChannel>(std::move(ring));
  }
  if (role.has_home()) {
    PACELINE_ASSIGN_OR_RETURN(made.home_, linked(role.home(), sizes.gradient, *links, traffic));
  }
  for (const StageLink& link : role.gradients()) {
    PACELINE_ASSIGN_OR_RETURN(auto channel, linked(link, sizes.gradient, *links, traffic));
    made.gradients_.push_back(std::move(channel));
  }
  if (role.has_next() || role.gradients_size() > 0) made.address_ = links->address();
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
      return absl::AbortedError(absl::StrCat("another stage is out of reach: ", found.status().message()));
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
