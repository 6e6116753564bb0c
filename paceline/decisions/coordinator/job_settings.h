// The facts of a job that its coordinator needs. The job file has them (config/coordinator_settings.h).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <absl/status/status.h>

#include "paceline/base/layout.h"
#include "paceline/base/places.h"
#include "paceline/decisions/control/controller.h"
#include "paceline/decisions/control/replanner.h"
#include "paceline/decisions/control/target.h"
#include "paceline/decisions/coordinator/server_parts.h"
#include "paceline/decisions/planner/plan.h"
#include "paceline/decisions/policy/policy_spec.h"

namespace paceline::coordinator {

struct JobSettings {
  // One device, which has a worker.
  struct Device {
    std::string name;  // "w0", "w1", …
    HostPlace host{};
  };
  std::vector<Device> devices;
  std::vector<std::string> left_out;  // names of devices of hosts that were given up
  std::int64_t hosts = 1;
  std::vector<HostRank> ranks;    // ranks of the hosts, if there are several
  std::vector<HostRank> without;  // hosts that were given up
  double host_patience_s = 30;    // how long the run waits for a lost host

  std::int64_t servers = 1;  // one for each host, if there are several
  ServerSpread spread = ServerSpread::kOneHost;
  std::int64_t copies = 1;      // copies of each shard, each on another host
  bool whole_tensors = false;   // no tensor is cut, because the optimizer steps whole ones
  bool clips = false;           // gradients are clipped by their norm over all shards
  bool seal = true;             // encrypts data between hosts
  bool card_possible = false;   // shards can be in a card's memory
  bool card_required = false;   // shards have to be in a card's memory
  bool sums_in_memory = false;  // the members of a commit sum among themselves, in the memory of their host
  bool sends_early = false;     // gradients may go to other hosts before they are in a commit

  bool foresees = false;  // the servers may know a commit before its gradients are ready (foresight.h)

  bool has_program = false;    // a user's program computes the gradients
  double reject_outliers = 0;  // rejects gradients with a norm this many times the others'; 0: none
  bool evaluates = true;
  std::optional<control::Target> stop_at;  // the run ends when an evaluation meets it

  std::int64_t card_reserve =
      0;  // the part of a card's free memory that plans leave to each device, in bytes
  planner::Plan plan;
  std::optional<control::ReplannerOptions> replanner;  // for a job that the planner plans
  policy::PolicySpec policy;
  // The Controller's configuration for a data set of so many samples.
  std::function<control::ControllerConfig(std::int64_t dataset_size)> controller = [](std::int64_t) {
    return control::ControllerConfig();
  };
  // Errors: InvalidArgument when the job does not suit this model.
  std::function<absl::Status(const Layout&)> check_model = [](const Layout&) { return absl::OkStatus(); };
};

}  // namespace paceline::coordinator
