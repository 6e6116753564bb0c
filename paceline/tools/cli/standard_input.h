// Standard input in place of a file that a command reads: `paceline train -`.
#pragma once

#include <cstdint>
#include <string>

#include <absl/status/statusor.h>

#include "paceline/processes/runs/job_file.h"

namespace paceline::cli {

inline constexpr char kStandardInput[] = "standard input";

// All of it. It can be read again, by this process or by the program that it becomes. Errors: it is closed,
// or longer than `most_bytes`.
absl::StatusOr<std::string> read_standard_input(std::int64_t most_bytes = runs::kMostJobBytes);

// The text of a file as the command line names it, so "-" is standard input, and a pipe of the shell's,
// /dev/fd/63, can be read again too; and how messages name it. Errors: as store::read_file and
// read_standard_input.
absl::StatusOr<std::string> read_named_file(const std::string& file,
                                            std::int64_t most_bytes = runs::kMostJobBytes);
std::string shown_name(const std::string& file);

}  // namespace paceline::cli
