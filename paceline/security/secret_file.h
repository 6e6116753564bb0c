// Small files of keys, certificates and tokens. Any thread.
#pragma once

#include <filesystem>
#include <string>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

namespace paceline::security {

inline constexpr unsigned kOwnerOnly = 0600;
inline constexpr unsigned kAnybodyReads = 0644;

// Makes the file with these permissions. Errors: AlreadyExists when it is there.
absl::Status write_new(const std::filesystem::path& path, const std::string& bytes, unsigned mode,
                       const std::filesystem::path& shown = {});

// The whole file. Errors: NotFound; InvalidArgument when it is no regular file, or larger than 64 KiB.
absl::StatusOr<std::string> read_small(const std::filesystem::path& path);

}  // namespace paceline::security
