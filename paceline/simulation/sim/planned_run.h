// A training planned batch by batch, through a trace: devices change their speed, links and prices change,
// devices leave and join. The truth is the exact 1F1B schedule (planner/timeline.h) of the state at the time,
// with jitter; the planner sees noisy measurements. The same for each baseline, as its system would go on:
//
//  frozen, gpipe, gpipe-work,  keep their first plan; when one of its devices leaves, they start again with
//  pipedream, hetpipe          the remaining devices, in the same way as at first (and with the knowledge
//                              from then).
//  bsp                         takes all present devices, with even data.
//  lb-bsp                      the same, with data by the latest measurements, every batch.
//
// The same file and seed give the same numbers, and every one of them meets the same jitter and the same
// changes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "paceline/decisions/planner/online_planner.h"
#include "paceline/formats/config/cluster_file.h"

namespace paceline::sim {

struct PlannedRun {
  std::string name;    // "paceline", or the baseline's
  absl::Status ended;  // why it could not begin, or go on
  std::int64_t batches = 0;
  double elapsed_ms = 0;
  planner::Costs costs{};         // sum over all batches
  std::vector<double> queue_max;  // one for each budget, in batches of it
  std::int64_t replans = 0;       // searches for another plan
  std::int64_t migrations = 0;
  double predicted_error = 0;  // mean of |predicted − τ| / τ, batches with a migration left out
};

// Ours comes first. Errors: if not even ours can begin.
absl::StatusOr<std::vector<PlannedRun>> run_planned(const config::ClusterFile& file);

}  // namespace paceline::sim
