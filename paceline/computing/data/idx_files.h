// The drawn digits in the files that MNIST comes in, for programs that read those.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <absl/status/statusor.h>

namespace paceline::data {

// Writes four gzipped IDX files into `directory`, and says their names. Errors: Unavailable; what was written
// by then is left.
absl::StatusOr<std::vector<std::string>> write_digits(const std::filesystem::path& directory);

}  // namespace paceline::data
