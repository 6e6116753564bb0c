// `paceline up`: a job on several hosts, from one of them or from elsewhere, over ssh. It looks whether each
// host has this version, copies the job and its certificates, has the doctor examine all hosts, starts their
// nodes and shows how the run goes. Ctrl-C stops the run with a checkpoint, and it can go on with that.
#pragma once

#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "paceline/processes/launch/display.h"

namespace paceline::cli {

struct UpOptions {
  std::string hosts_file;  // a name a line, as ssh takes it, host 0 first
  std::string job_file;
  std::vector<std::string> sets;  // key=value
  std::string directory;          // the folder on each host for the job; empty: paceline/NAME below the home
  std::string program = "paceline";  // the program on each host
  bool copy_programs = false;        // copy this version's programs to each host's directory
  bool doctor = true;
  std::string resume{};  // the folder of a run on host 0; empty: a new run
};

// The names in a hosts file. Errors: there is none, or one that ssh would take for an option.
absl::StatusOr<std::vector<std::string>> hosts_in(const std::string& text, const std::string& file);

// The exit status.
absl::StatusOr<int> up_command(const UpOptions& options);

}  // namespace paceline::cli
