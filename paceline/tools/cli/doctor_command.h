// `paceline doctor`: what of this host a job needs, whether it is so, and how to fix what is not. On all
// hosts of a job at once, each with its rank, they are compared as well, and what goes between them is
// measured.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "paceline/tools/cli/host_place.h"

namespace paceline::cli {

struct DoctorOptions {
  std::string job_file;           // empty: the default job if there are sets, else only the host
  std::vector<std::string> sets;  // key=value
  bool json = false;
  PlaceOptions place{};      // with a job, and if there are several hosts
  std::int64_t wait_s = 60;  // longest wait for the other hosts
};

// Prints a line for each finding, or a JSON array of objects; of several hosts, the first prints the report
// on all of them. The exit status: 2 when something failed, else 0. Errors: the job file's; what kept this
// host from being examined with the others.
absl::StatusOr<int> doctor_command(const DoctorOptions& options, const launch::Environment& environment);

}  // namespace paceline::cli
