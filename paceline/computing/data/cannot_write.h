// The error of a file that cannot be written.
#pragma once

#include <filesystem>

#include <absl/status/status.h>

namespace paceline::data {

// `error`: errno after the try.
absl::Status cannot_write(const std::filesystem::path& path, int error);

}  // namespace paceline::data
