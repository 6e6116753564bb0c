// What a program asks of its job: its optimizer, its batch, its epochs. The job file may say the same, but
// nothing else, so that there is one truth.
#pragma once

#include <string>
#include <vector>

#include <absl/status/statusor.h>

namespace paceline::cli {

// The text of a job with what its program asks laid under it. `asked`: "KEY=VALUE" in TOML each; `file` and
// `program` are the names that errors give. Errors: InvalidArgument when the job says something else.
absl::StatusOr<std::string> with_asked(const std::string& job_toml, const std::vector<std::string>& asked,
                                       const std::string& file, const std::string& program);

}  // namespace paceline::cli
