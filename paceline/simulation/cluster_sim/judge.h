// The rules of how a run may end: the exit of each launcher, and the newest checkpoint. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <absl/status/status.h>

#include "paceline/base/places.h"

namespace paceline::cluster_sim {

struct RunEnd {
  std::int64_t samples = 0;  // samples of the job, over all epochs
  // the end that the last leading coordinator gave the run; nothing: it was killed
  std::optional<absl::Status> run;
  int led_by = 0;                  // the host of that coordinator
  std::vector<HostRank> given_up;  // hosts that the run went on without
  // the exit of each host's launcher; nothing: it was killed
  std::vector<std::optional<absl::Status>> launchers;
  std::optional<std::int64_t> committed;  // samples in the newest checkpoint; nothing: there is none
  // The faults and wishes that the run met.
  bool ever_trained = false;
  bool stopped = false;
  bool full_disks = false;
  bool killed_at_start = false;
  bool needs_more_hosts = false;  // the job asks for more hosts than are left
  bool nobody_can_lead = false;   // no host is left that has the run and enough other hosts with it
};

// The reason why a run may not end like this; nothing if it may.
std::optional<std::string> complaint_about(const RunEnd& end);

}  // namespace paceline::cluster_sim
