// What follows from this host's place among those of a job, for `paceline node` and `paceline doctor`: how
// many hosts the job has, and where they reach each other.
#pragma once

#include <chrono>
#include <string>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include "paceline/cli/train_command.h"
#include "paceline/launch/placement.h"

namespace paceline::cli {

struct PlaceOptions {
  std::string address{};  // of this host, for the others; empty: of the interface that reaches the first one
  launch::SaidPlacement said{};
};

// The job on as many hosts as there are, which it need not say; then `options` have it. Errors: the job's.
absl::StatusOr<config::JobConfig> job_of_hosts(TrainOptions& options, const launch::Placement& placement);

// Whether hosts that know each other could reach the first one at all, as the job has it.
absl::Status check_reach(const config::JobConfig& job, const launch::Placement& placement);

// Whether that address, where one is written, is this host's.
absl::Status check_address(const PlaceOptions& options);

// By which address, in numbers, the other hosts reach this one; empty where there are none. The first host's
// name may not be known yet where that has not started: waits for it, as long as for a coordinator or so
// long.
absl::StatusOr<std::string> own_address(const PlaceOptions& options, const launch::Placement& placement,
                                        std::chrono::seconds patience = std::chrono::seconds(60));

// Where the host at `address` listens, when it has the coordinator: as the job has it for the first one.
std::string listen_address(const config::JobConfig& job, const launch::Placement& placement,
                           const std::string& address = "");
// Where the others find that.
std::string first_address(const config::JobConfig& job, const launch::Placement& placement);

}  // namespace paceline::cli
