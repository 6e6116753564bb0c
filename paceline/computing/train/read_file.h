// Bytes from disk, for the data set readers only. Files are not trusted: a missing, odd or unreadable file is
// an error that names it and the fix.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <span>
#include <vector>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include "paceline/base/text_hash.h"

namespace paceline::train {

using Bytes = std::vector<std::uint8_t>;

inline constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max();

inline std::uint64_t bytes_hash(std::span<const std::uint8_t> bytes) {
  return text_hash({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

// Appends the regular file `path` to `bytes`, which grows to no more than `limit`; the rest is left unread.
absl::Status append_file(const std::filesystem::path& path, std::int64_t limit, Bytes& bytes);

// Fails unless `path` is a directory. `holding` says what it should hold, for the message; `set`: which of
// the standard sets that is, if it is one.
absl::Status require_directory(const std::filesystem::path& path, const char* holding,
                               const char* set = nullptr);

enum class Depth { kTop, kTree };

// The regular files of a directory, sorted by path, so that every machine sees one order. Links to files
// count; links to directories are not followed.
absl::StatusOr<std::vector<std::filesystem::path>> list_files(const std::filesystem::path& directory,
                                                              Depth depth);

}  // namespace paceline::train
