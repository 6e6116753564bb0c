// The real Controller over replicas of unequal speed in a small discrete simulation, with an invented
// learning curve that staleness slows down. The same job always gives the same run. For the tests of this
// folder.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "paceline/base/time.h"
#include "paceline/decisions/control/run_listener.h"
#include "paceline/decisions/policy/sync_policy.h"
#include "paceline/records/stats/run_stats.h"

namespace paceline::report {

struct ExampleReplica {
  std::string name;
  double iteration_s = 1;
  std::optional<double> leaves_at_s = std::nullopt;
  std::string why_it_leaves = "the process ended";
};

struct ExampleJob {
  std::vector<ExampleReplica> replicas;
  std::int64_t batch = 32;
  std::int64_t samples = 3200;  // one epoch has this many
  std::int64_t evaluate_every = 320;
  double jitter = 0;  // ± this share of the iteration's length
};

// Four replicas, the last three times slower.
ExampleJob uneven_four();

// Shows the run to `stats` until it is finished. Returns the time of the end. `policy`: as a user writes it.
Time run_example(const ExampleJob& job, const std::string& policy, control::RunListener& stats);
Time run_example(const ExampleJob& job, std::unique_ptr<policy::SyncPolicy> policy,
                 control::RunListener& stats);

// Gradients gather until there are `size` of them, or one of each live replica, or until the first of them
// has waited for `longest_wait_s`: then they commit as one group.
std::unique_ptr<policy::SyncPolicy> gathering(std::size_t size, double longest_wait_s);

}  // namespace paceline::report
