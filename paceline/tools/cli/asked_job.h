// The settings that a program asks of its job: its optimizer, its batch, its epochs. The job file may have
// the same values, but no others, so that the two cannot disagree.
#pragma once

#include <string>
#include <vector>

#include <absl/status/statusor.h>

namespace paceline::cli {

// The origins of settings, for errors.
struct Sayers {
  std::string file;
  std::string program;
  std::vector<std::string> sets;  // settings of the command line, which override the file
  bool resumed = false;           // the file is the run's own, from its beginning
  std::string where = {};  // FILE:LINE of the program that asks for them; empty: the program did not say
};

// The text of a job, with its program's settings as defaults. `asked`: one "KEY=VALUE" in TOML each. Errors:
// InvalidArgument when the job has another value, or cannot have this one.
absl::StatusOr<std::string> with_asked(const std::string& job_toml, const std::vector<std::string>& asked,
                                       const Sayers& sayers);

}  // namespace paceline::cli
