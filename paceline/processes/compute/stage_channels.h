// Connects a device's stage to other devices of its replica: channels to those of the neighbouring stages,
// through memory or, on other hosts, over links; and one to the first device for this device's part of the
// gradient, if it does not write it there itself. One thread.
//
// A device that waits here for a dead one would wait for ever, so the coordinator notices the death, and the
// worker is interrupted. If only a link has ended, the coordinator may not notice: a worker that hears
// nothing for a while comes back as a new one.
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

#include "paceline/formats/wire/paceline.pb.h"
#include "paceline/processes/compute/stage_traffic.h"
#include "paceline/transport/channels/channel.h"
#include "paceline/transport/links/link_channels.h"

namespace paceline::compute {

// The coordinator knows within so long of a process that is gone or silent, and says what follows.
inline constexpr std::chrono::seconds kWordOfIt{5};

// Whether the role has a link to a device on another host.
bool has_links(const wire::Role& role);

class StageChannels {
 public:
  // Waits at most so long; true when the iteration under way is to be given up.
  using Interrupted = std::function<bool(std::chrono::nanoseconds)>;
  struct Sizes {
    channels::ChannelSizes previous, next, gradient;
  };

  // `links`: this process's, which outlive the channels; null where the role has none. `traffic` counts what
  // goes over them. Errors: NotFound when a neighbour has gone, InvalidArgument when other memory lies there
  // since; of memory; Internal when the coordinator gave no proper keys; InvalidArgument when it gave no way
  // to a device that this one needs.
  static absl::StatusOr<StageChannels> open(const wire::Role& role, const Sizes& sizes,
                                            links::LinkChannels* links, StageTraffic& traffic,
                                            Interrupted interrupted);

  // Paths of the channels in memory to devices behind, and of those of `gradients()`, as the role lists them;
  // empty for channels over links.
  const std::vector<std::string>& next_paths() const { return next_paths_; }
  const std::vector<std::string>& gradient_paths() const { return gradient_paths_; }
  // The address at which devices on other hosts connect to this one; empty if none does.
  const std::string& address() const { return address_; }

  // To the device of the neighbouring stage that computes this micro-batch. Requires: there is such a stage,
  // and this device computes it too.
  channels::Channel& previous(std::int64_t micro) { return at(previous_, micro); }
  channels::Channel& next(std::int64_t micro) { return at(next_, micro); }
  // To the first device; null where this one writes its part of the gradient there.
  channels::Channel* home() { return home_.get(); }
  // In the first device: of the parts of others.
  struct Part {
    std::unique_ptr<channels::Channel> channel;
    bool adds = false;  // to what another device of its stage has written
  };
  std::span<const Part> gradients() const { return gradients_; }

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

  // index: turn; null: that neighbour is not met
  using Neighbours = std::vector<std::unique_ptr<channels::Channel>>;
  static channels::Channel& at(Neighbours& neighbours, std::int64_t micro) {
    return *neighbours[static_cast<std::size_t>(micro) % neighbours.size()];
  }

  Neighbours previous_, next_;
  std::unique_ptr<channels::Channel> home_;
  std::vector<Part> gradients_;
  std::vector<std::string> next_paths_, gradient_paths_;
  std::string address_;
  Interrupted interrupted_;
};

}  // namespace paceline::compute
