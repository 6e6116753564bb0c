// The IDX format of MNIST: a magic number, the extents as big-endian 32-bit numbers, then bytes. For
// mnist.cc only.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include <absl/status/statusor.h>

#include "paceline/computing/train/read_file.h"

namespace paceline::train {

struct IdxFile {
  std::vector<std::int64_t> extents;
  Bytes bytes;  // always as many as the extents say
};

// Reads unsigned bytes in `dimensions` dimensions, from a gzip file too. The extents are checked against the
// file's real size before memory is taken for them.
absl::StatusOr<IdxFile> read_idx(const std::filesystem::path& path, int dimensions);

}  // namespace paceline::train
