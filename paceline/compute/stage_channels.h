// What connects a stage to others of its replica: channels to its neighbours, through memory or, where they
// are on another host, over links; and where the first stage is on another host, one to that, for this
// stage's part of the gradient. One thread.
//
// A stage that waits here for a dead stage would wait for ever: the coordinator notices, and the
// worker is interrupted. Where only a link has ended, nobody may notice: a worker that hears nothing for a
// while comes again as a new one.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "paceline/channels/channel.h"
#include "paceline/compute/stage_traffic.h"
#include "paceline/links/link_channels.h"
#include "paceline/wire/paceline.pb.h"

namespace paceline::compute {

// Whether the role has a link to a stage on another host.
bool has_links(const wire::Role& role);

class StageChannels {
 public:
  // Waits at most so long; true when the iteration under way is to be given up.
  using Interrupted = std::function<bool(std::chrono::nanoseconds)>;
  struct Sizes {
    channels::ChannelSizes previous, next, gradient;
  };

  // `links`: this process's, which outlive the channels; null where the role has none. `traffic` counts what
  // goes over them. Errors: NotFound when a neighbour died this very moment; of memory; Internal when the
  // coordinator gave no proper keys.
  static absl::StatusOr<StageChannels> open(const wire::Role& role, const Sizes& sizes,
                                            links::LinkChannels* links, StageTraffic& traffic,
                                            Interrupted interrupted);

  // In memory, for the stage behind; empty where there is none, or it is on another host.
  const std::string& next_path() const { return next_path_; }
  // Where stages on other hosts connect to this one; empty where none does.
  const std::string& address() const { return address_; }

  bool first() const { return previous_ == nullptr; }
  bool last() const { return next_ == nullptr; }
  // Requires: there is such a stage.
  channels::Channel& previous() { return *previous_; }
  channels::Channel& next() { return *next_; }
  // To the first stage; null where that is on this host.
  channels::Channel* home() { return home_.get(); }
  // In the first stage: of the gradients of stages on other hosts.
  std::span<const std::unique_ptr<channels::Channel>> gradients() const { return gradients_; }

  // Waits for as long as it takes. Nothing when it was interrupted. Errors: those of a message; Aborted when
  // this worker is to come again.
  absl::StatusOr<std::optional<std::span<std::byte>>> room(channels::Channel& to) const;
  absl::StatusOr<std::optional<std::span<const std::byte>>> message(channels::Channel& from) const;

  bool interrupted(std::chrono::nanoseconds limit) const { return interrupted_(limit); }

 private:
  StageChannels() = default;
  template <class Bytes>
  absl::StatusOr<std::optional<Bytes>> wait(
      const std::function<absl::StatusOr<std::optional<Bytes>>(std::chrono::nanoseconds)>& look) const;

  std::unique_ptr<channels::Channel> previous_, next_, home_;
  std::vector<std::unique_ptr<channels::Channel>> gradients_;
  std::string next_path_, address_;
  Interrupted interrupted_;
};

}  // namespace paceline::compute
