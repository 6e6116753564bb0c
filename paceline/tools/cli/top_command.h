// `paceline top`: a run on the whole screen of a terminal.
#pragma once

#include <string>

#include <absl/status/statusor.h>

namespace paceline::cli {

struct TopOptions {
  std::string run;    // its folder, or a folder of runs: then the newest
  bool once = false;  // print it, and end
};

// Runs until q or Ctrl-C. Returns the exit status.
absl::StatusOr<int> top_command(const TopOptions& options);

}  // namespace paceline::cli
