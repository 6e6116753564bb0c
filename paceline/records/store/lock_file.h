// A file that one process at a time locks, for as long as it keeps the descriptor open; a crash unlocks it.
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>

#include <absl/status/statusor.h>

#include "paceline/base/file_descriptor.h"

namespace paceline::store {

// Locks the file at the path, also if the process that had the lock removes its own. Makes it if it is not there, and
// follows no link. Returns nothing if another process holds it for longer than `patience`. Errors: the file system's.
absl::StatusOr<std::optional<FileDescriptor>> lock_file(const std::filesystem::path& path,
                                                        std::chrono::milliseconds patience = {});

}  // namespace paceline::store
