// SHA-256 of a file.
#pragma once

#include <filesystem>
#include <string>

#include <absl/status/statusor.h>

namespace paceline::data {

// The sum in hexadecimal, 64 small letters and digits. Errors: NotFound or Unavailable, with the file's name.
absl::StatusOr<std::string> sha256_of_file(const std::filesystem::path& path);

}  // namespace paceline::data
