// `paceline compare`: one job under several policies, one after another, and what each gave.
#pragma once

#include <string>
#include <vector>

#include <absl/status/statusor.h>

namespace paceline::cli {

struct CompareOptions {
  std::string job_file;
  std::vector<std::string> sets;
  std::string policies;  // "bsp,asp,ssp:3"
  bool json = false;
  bool in_virtual_time = false;
};

// The exit status.
absl::StatusOr<int> compare_command(const CompareOptions& options);

}  // namespace paceline::cli
