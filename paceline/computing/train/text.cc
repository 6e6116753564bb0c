#include "paceline/computing/train/text.h"

#include <cstdlib>
#include <sstream>
#include <string>
#include <system_error>
#include <vector>

#include <fmt/format.h>

#include "paceline/base/status_macros.h"

namespace paceline::train {

namespace fs = std::filesystem;

namespace {

absl::Status append_files(const std::vector<fs::path>& files, std::int64_t max_bytes, Bytes& bytes) {
  for (const fs::path& file : files) {
    if (static_cast<std::int64_t>(bytes.size()) >= max_bytes) break;
    PACELINE_RETURN_IF_ERROR(append_file(file, max_bytes, bytes));
  }
  return absl::OkStatus();
}

// "12" → {12}, "9.4.0" → {9, 4, 0}; empty for anything else.
std::vector<long> version_of(const std::string& name) {
  std::vector<long> version;
  if (name.find_first_not_of("0123456789.") != std::string::npos) return version;
  std::istringstream parts(name);
  for (std::string part; std::getline(parts, part, '.');) {
    version.push_back(std::strtol(part.c_str(), nullptr, 10));
  }
  return version;
}

// Empty when there is none.
fs::path newest_version(const fs::path& root) {
  std::error_code error;
  std::vector<long> newest;
  fs::path path;
  for (fs::directory_iterator entry(root, error); !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    const std::vector<long> version = version_of(entry->path().filename().string());
    if (version <= newest) continue;
    newest = version;
    path = entry->path();
  }
  return path;
}

}  // namespace

absl::StatusOr<Bytes> read_text(const fs::path& path, std::int64_t max_bytes) {
  std::vector<fs::path> files = {path};
  std::error_code error;
  if (fs::is_directory(path, error)) {
    PACELINE_ASSIGN_OR_RETURN(files, list_files(path, Depth::kTree));
  }
  Bytes bytes;
  PACELINE_RETURN_IF_ERROR(append_files(files, max_bytes, bytes));
  return bytes;
}

absl::StatusOr<Bytes> read_headers(const fs::path& root, std::int64_t max_bytes) {
  const fs::path newest = newest_version(root);
  if (newest.empty()) {
    return absl::NotFoundError(fmt::format(
        "{}: no C++ library headers there; install a C++ compiler, or set data.source to \"text:FILE\"",
        root.string()));
  }
  Bytes bytes;
  for (const fs::path& directory : {newest, newest / "bits"}) {
    PACELINE_ASSIGN_OR_RETURN(const std::vector<fs::path> files, list_files(directory, Depth::kTop));
    PACELINE_RETURN_IF_ERROR(append_files(files, max_bytes, bytes));
  }
  return bytes;
}

}  // namespace paceline::train
