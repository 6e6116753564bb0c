// The error of a file that cannot be written because there is no room for it.
#pragma once

#include <filesystem>
#include <optional>

#include <absl/status/status.h>

namespace paceline {

// ResourceExhausted if errno `error` means a full disk, a quota, or `ulimit -f`; nothing for other errors.
std::optional<absl::Status> no_room(const std::filesystem::path& path, int error);

}  // namespace paceline
