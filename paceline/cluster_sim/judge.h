// How a run may end: what each launcher says, and what is kept of it. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <absl/status/status.h>

#include "paceline/base/places.h"

namespace paceline::cluster_sim {

struct RunEnd {
  std::optional<absl::Status> run;  // as the coordinator that led it last ended it; nothing: it was killed
  int led_by = 0;                   // its host
  std::vector<HostRank> given_up;   // hosts that the run went on without
  std::vector<std::optional<absl::Status>> launchers;  // by host: its exit; nothing: it was killed
  std::optional<std::int64_t> committed;  // samples in the newest checkpoint; nothing: there is none
  // What went wrong, or was wanted.
  bool ever_trained = false;
  bool stopped = false;
  bool full_disks = false;
  bool killed_at_start = false;
  bool needs_more_hosts = false;  // the job, than are left
  bool nobody_can_lead = false;   // no host is left that has the run, and enough others with it
};

// Why it may not end so; nothing where it may.
std::optional<std::string> complaint_about(const RunEnd& end);

}  // namespace paceline::cluster_sim
