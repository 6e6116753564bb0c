// Bytes to model: a file, a directory tree, or the C++ library headers of this machine, in one fixed order.
// Plain bytes, no libtorch; text_set.h makes samples of them.
#pragma once

#include <cstdint>
#include <filesystem>

#include <absl/status/statusor.h>

#include "paceline/computing/train/read_file.h"

namespace paceline::train {

// The first `max_bytes` bytes of a file, or of all regular files of a directory tree one after the other,
// sorted by path. Errors: nothing there, or not readable.
absl::StatusOr<Bytes> read_text(const std::filesystem::path& path, std::int64_t max_bytes);

// The C++ library headers of the newest version under `root`: its top level, then bits/.
absl::StatusOr<Bytes> read_headers(const std::filesystem::path& root, std::int64_t max_bytes);

}  // namespace paceline::train
