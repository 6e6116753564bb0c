// What a program asks of its job: its optimizer, its batch, its epochs. The job file may say the same, but
// nothing else, so that there is one truth.
#pragma once

#include <string>
#include <vector>

#include <absl/status/statusor.h>

namespace paceline::cli {

// Who says what, for errors.
struct Sayers {
  std::string file;
  std::string program;
  std::vector<std::string> sets;  // of the command line, which go before the file
  bool resumed = false;           // the file is the run's own: what the run began with
};

// The text of a job with what its program asks laid under it. `asked`: "KEY=VALUE" in TOML each. Errors:
// InvalidArgument when the job says something else.
absl::StatusOr<std::string> with_asked(const std::string& job_toml, const std::vector<std::string>& asked,
                                       const Sayers& sayers);

}  // namespace paceline::cli
