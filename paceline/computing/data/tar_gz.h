// Files out of a .tar.gz archive.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <absl/status/status.h>

namespace paceline::data {

// Writes those regular files whose names, without folders, are in `names` to `directory`, and nothing else.
// Errors: InvalidArgument (no such archive, damaged, or one of them is not in it), Unavailable (a file cannot
// be written); what was written by then is left.
absl::Status unpack_tar_gz(const std::filesystem::path& archive, const std::vector<std::string>& names,
                           const std::filesystem::path& directory);

}  // namespace paceline::data
