// The IDX format of MNIST: a magic number, the extents as big-endian 32-bit numbers, then bytes. For
// mnist.cc only.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include <absl/status/statusor.h>

#include "paceline/train/read_file.h"

namespace paceline::train {

struct IdxFile {
  std::vector<std::int64_t> extents;
  Bytes bytes;  // as many as the extents say, always
};

// Reads unsigned bytes in `dimensions` dimensions; gzip is seen through. The extents are checked against what
// the file really holds before memory is taken for them.
absl::StatusOr<IdxFile> read_idx(const std::filesystem::path& path, int dimensions);

}  // namespace paceline::train
