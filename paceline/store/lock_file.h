// A file that one process at a time holds, for as long as it has the descriptor; a crash lets go of it.
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>

#include <absl/status/statusor.h>

#include "paceline/base/file_descriptor.h"

namespace paceline::store {

// Locks the file. Makes it if it is not there, and follows no link. Returns nothing when another process
// holds it for longer than `patience`. Errors: what the file system says.
absl::StatusOr<std::optional<FileDescriptor>> lock_file(const std::filesystem::path& path,
                                                        std::chrono::milliseconds patience = {});

}  // namespace paceline::store
