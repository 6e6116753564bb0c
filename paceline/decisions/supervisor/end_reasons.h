// Why a run ends, as far as a launcher knows it. Pure.
#pragma once

#include <optional>
#include <string>

#include <absl/status/status.h>

#include "paceline/decisions/supervisor/events.h"

namespace paceline::supervisor {

struct EndReasons {
  std::optional<absl::Status> first_error{};            // a member's, before training began
  std::optional<absl::Status> lost_with_coordinator{};  // how a member ended when nobody answered any more
  std::optional<absl::Status> failure{};                // the run's failure, reported by a member
  std::optional<absl::Status> taken{};                  // the report of a member whose place was taken
  std::optional<absl::Status> no_leader{};              // the end of a member to which no coordinator came
  std::string lost_all{};  // the last worker of the last replica, and why it was lost

  // The run's end if the coordinator of this host ended so.
  absl::Status after_coordinator(const ProcessEnd& end) const;
  // The run's end according to the members, if the coordinator is on another host.
  absl::Status as_heard(bool all_taken) const;
};

}  // namespace paceline::supervisor
