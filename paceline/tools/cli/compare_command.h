// `paceline compare`: one job under several policies, or planned in several ways, one after another, and what
// each gave. One that was stopped goes on: runs that are over are not trained again.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "paceline/processes/launch/display.h"

namespace paceline::cli {

struct CompareOptions {
  std::string job_file;
  std::vector<std::string> sets;
  std::string policies;    // "bsp,asp,ssp:3"; empty: the job's
  std::string parallel;    // "joint,uneven-data,gpipe"; empty: as the job says
  std::int64_t seeds = 1;  // each variant is trained with this many seeds: the job's, and the next ones
  std::string resume;      // a comparison's folder; then there is nothing of the above
  launch::Shown shown = launch::Shown::kLine;
  bool in_virtual_time = false;
  bool ui = false;  // pages of all of them, while they train
};

// The exit status.
absl::StatusOr<int> compare_command(const CompareOptions& options);

}  // namespace paceline::cli
