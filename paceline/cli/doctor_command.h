// `paceline doctor`: what of this host a job needs, whether it is so, and how to mend what is not.
#pragma once

#include <string>
#include <vector>

#include <absl/status/statusor.h>

namespace paceline::cli {

enum class Health { kOk, kWarn, kFail };

struct Finding {
  std::string what;  // "open files"
  Health health = Health::kOk;
  std::string says;  // what was found
  std::string mend;  // what to do; empty where all is well
};

struct DoctorOptions {
  std::string job_file;           // empty: the host alone
  std::vector<std::string> sets;  // key=value
  bool json = false;
};

// Prints a line for each finding, or a JSON array of objects. The exit status: 2 when something failed, else
// 0. Errors: the job file's.
absl::StatusOr<int> doctor_command(const DoctorOptions& options);

}  // namespace paceline::cli
