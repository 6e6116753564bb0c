// Conclusions from this host's place among those of a job, for `paceline node` and `paceline doctor`: how
// many hosts the job has, and where they reach each other.
#pragma once

#include <chrono>
#include <string>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include "paceline/processes/launch/placement.h"
#include "paceline/tools/cli/train_command.h"

namespace paceline::cli {

struct PlaceOptions {
  // this host's, for the others; empty: that of the interface that reaches the first host
  std::string address{};
  launch::SaidPlacement said{};
};

// The job, with the number of hosts, which its file may leave out; then `options` get it. Errors: the job's.
absl::StatusOr<config::JobConfig> job_of_hosts(TrainOptions& options, const launch::Placement& placement);

// Whether hosts that know each other can reach the first one at all under the job's settings.
absl::Status check_reach(const config::JobConfig& job, const launch::Placement& placement);

// Whether the given address, if there is one, belongs to this host.
absl::Status check_address(const PlaceOptions& options);

// The numeric address by which the other hosts reach this one; empty if there are no others. The first host's
// name may be unknown until that host has started, so this waits up to `patience` for it.
absl::StatusOr<std::string> own_address(const PlaceOptions& options, const launch::Placement& placement,
                                        std::chrono::seconds patience = std::chrono::seconds(60));

// The address on which the host at `address` listens when it has the coordinator, from the job's setting for
// the first host.
std::string listen_address(const config::JobConfig& job, const launch::Placement& placement,
                           const std::string& address = "");
// The address at which the other hosts reach the first one.
std::string first_address(const config::JobConfig& job, const launch::Placement& placement);

}  // namespace paceline::cli
