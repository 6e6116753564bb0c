// The file of a user's program. Each worker of a job starts the program anew, so the file has to be readable many times.
#pragma once

#include <string>

#include <absl/status/statusor.h>

namespace paceline::cli {

// The absolute path of a program. A name without a slash that is no file here stays, and is looked for in PATH.
absl::StatusOr<std::string> absolute_program(const std::string& path);

// The same of `program.run`, looked for in the program's folder; of a folder, its __main__.py. Errors:
// InvalidArgument for standard input, a pipe, or a folder without __main__.py; NotFound for a missing script.
absl::StatusOr<std::string> startable_program(const std::string& run, const std::string& folder);

}  // namespace paceline::cli
