// A job from standard input: `paceline train -`.
#pragma once

#include <string>

#include <absl/status/statusor.h>

namespace paceline::cli {

inline constexpr char kStandardInput[] = "standard input";

// All of it. It can be read again, by this process or by the program that it becomes. Errors: it is closed,
// or longer than a job may be.
absl::StatusOr<std::string> read_standard_input();

}  // namespace paceline::cli
