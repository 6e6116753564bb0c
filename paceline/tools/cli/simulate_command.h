// `paceline simulate`: a scenario under several policies, in modelled time and without gradients.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <absl/status/statusor.h>

namespace paceline::cli {

struct SimulateOptions {
  std::vector<std::string> files;       // at least one; several only if they are clusters with [planner]
  std::optional<std::string> policies;  // for a scenario; empty: five policies
  std::int64_t seeds = 1;               // each is simulated with the scenario's seed and the next ones
  std::string html_file{};              // for a scenario: a page of all policies; empty: none
  std::string json_file;                // "-": standard output; empty: none, and a table is shown
};

// Writes an array with one JSON object for each policy and seed: policy, seed, replicas (places of the
// scenario), iterations (finished), virtual_s, samples (committed), commits, wait_share (null if no replica
// computed), gap_max, staleness_mean (null before the first commit), staleness_max, iterations_per_replica
// (for each replica, also those that left), wall_s, trace_hash. Returns the exit status.
absl::StatusOr<int> simulate_command(const SimulateOptions& options);

}  // namespace paceline::cli
