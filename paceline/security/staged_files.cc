#include "paceline/security/staged_files.h"

#include <fcntl.h>
#include <stdlib.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "paceline/base/status_macros.h"
#include "paceline/security/secret_file.h"

namespace paceline::security {

namespace fs = std::filesystem;

namespace {

absl::Status cannot_be_made(const fs::path& path, const std::string& why) {
  return absl::PermissionDeniedError(fmt::format("{}: cannot be made: {}", path.string(), why));
}

// Some file systems know no rename that replaces nothing.
int give_place(const fs::path& from, const fs::path& to, bool replace) {
  if (!replace) {
    if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return 0;
    if (errno != EINVAL && errno != ENOSYS) return errno;
  }
  return ::rename(from.c_str(), to.c_str()) == 0 ? 0 : errno;
}

}  // namespace

absl::StatusOr<StagedFiles> StagedFiles::in(const fs::path& folder) {
  StagedFiles files(folder);
  PACELINE_RETURN_IF_ERROR(files.make_folders(folder));
  std::string staging = (folder / ".partial-XXXXXX").string();
  if (::mkdtemp(staging.data()) == nullptr) return cannot_be_made(staging, std::strerror(errno));
  files.staging_ = staging;
  return files;
}

StagedFiles::~StagedFiles() {
  std::error_code ignored;  // the first error is the one to tell
  if (!staging_.empty()) fs::remove_all(staging_, ignored);
  // Those that hold something stay.
  for (auto folder = made_.rbegin(); folder != made_.rend(); ++folder) fs::remove(*folder, ignored);
}

absl::Status StagedFiles::make_folders(const fs::path& folder) {
  std::error_code error;
  if (folder.empty() || fs::is_directory(folder, error)) return absl::OkStatus();
  PACELINE_RETURN_IF_ERROR(make_folders(folder.parent_path()));
  if (fs::create_directory(folder, error)) made_.push_back(folder);
  return error ? cannot_be_made(folder, error.message()) : absl::OkStatus();
}

absl::Status StagedFiles::add(const fs::path& name, const std::string& bytes, unsigned mode) {
  const fs::path staged = staging_ / std::to_string(files_.size());
  PACELINE_RETURN_IF_ERROR(write_new(staged, bytes, mode));
  files_.push_back({staged, folder_ / name});
  return absl::OkStatus();
}

absl::Status StagedFiles::check_place(const fs::path& place, bool replace) const {
  std::error_code error;
  const fs::file_status there = fs::symlink_status(place, error);
  if (!fs::exists(there) || (replace && !fs::is_directory(there))) return absl::OkStatus();
  return absl::AlreadyExistsError(fmt::format("{}: is there already{}", place.string(),
                                              fs::is_directory(there) ? ", and is a folder" : ""));
}

absl::Status StagedFiles::commit(bool replace) {
  for (const File& file : files_) {
    PACELINE_RETURN_IF_ERROR(make_folders(file.place.parent_path()));
    PACELINE_RETURN_IF_ERROR(check_place(file.place, replace));
  }
  std::vector<fs::path> placed;
  for (const File& file : files_) {
    const int error = give_place(file.staged, file.place, replace);
    if (error == 0) {
      placed.push_back(file.place);
      continue;
    }
    std::error_code ignored;
    for (const fs::path& one : placed) {
      if (!replace) fs::remove(one, ignored);
    }
    return cannot_be_made(file.place, std::strerror(error));
  }
  return absl::OkStatus();
}

}  // namespace paceline::security
