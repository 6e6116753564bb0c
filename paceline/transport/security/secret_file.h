// Small files of keys, certificates and tokens. Any thread.
#pragma once

#include <filesystem>
#include <string>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

namespace paceline::security {

inline constexpr unsigned kOwnerOnly = 0600;
inline constexpr unsigned kAnybodyReads = 0644;

// Makes the file with these permissions. `shown`: the path that errors name instead. Errors: AlreadyExists if
// the file is there.
absl::Status write_new(const std::filesystem::path& path, const std::string& bytes, unsigned mode,
                       const std::filesystem::path& shown = {});

// The whole file. Errors: NotFound; InvalidArgument if it is no regular file, or larger than 64 KiB.
absl::StatusOr<std::string> read_small(const std::filesystem::path& path);

}  // namespace paceline::security
