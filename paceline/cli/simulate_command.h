// `paceline simulate`: a scenario under several policies, in modelled time and without gradients.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <absl/status/statusor.h>

namespace paceline::cli {

struct SimulateOptions {
  std::vector<std::string> files;       // at least one; several only of clusters with [planner]
  std::optional<std::string> policies;  // of a scenario; without: five of them
  std::int64_t seeds = 1;               // each is simulated with the scenario's seed and those that follow
  std::string html_file{};              // of a scenario: a page of all policies; empty: none
  std::string json_file;                // "-": standard output; empty: none, and a table is shown
};

// Writes one JSON object for each policy and seed, in an array: policy, seed, replicas (places of the
// scenario), iterations (finished), virtual_s, samples (committed), commits, wait_share (null when nobody
// computed), gap_max, staleness_mean (null before the first commit), staleness_max, iterations_per_replica
// (by replica, those that left too), wall_s, trace_hash. The exit status.
absl::StatusOr<int> simulate_command(const SimulateOptions& options);

}  // namespace paceline::cli
