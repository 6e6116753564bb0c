#include "paceline/transport/security/staged_files.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <system_error>
#include <utility>

#include <absl/strings/str_split.h>
#include <fmt/format.h>

#include "paceline/base/status_macros.h"
#include "paceline/transport/security/secret_file.h"

namespace paceline::security {

namespace fs = std::filesystem;

namespace {

// The subfolder of the files under way to their places, and the list of them in it. Each line of the list has
// a file's name and its place.
constexpr char kOnItsWay[] = ".placing";
constexpr char kList[] = "list";

absl::Status cannot_be_made(const fs::path& path, const std::string& why) {
  return absl::PermissionDeniedError(fmt::format("{}: cannot be made: {}", path.string(), why));
}

// A rename that replaces nothing; some file systems do not know it.
int give_place(const fs::path& from, const fs::path& to, bool replace) {
  if (!replace) {
    if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return 0;
    if (errno != EINVAL && errno != ENOSYS) return errno;
  }
  return ::rename(from.c_str(), to.c_str()) == 0 ? 0 : errno;
}

bool stays_within(const fs::path& name) {
  return name.is_relative() && std::ranges::none_of(name, [](const fs::path& part) { return part == ".."; });
}

}  // namespace

absl::Status StagedFiles::finish(const fs::path& folder) {
  const fs::path on_its_way = folder / kOnItsWay;
  const auto list = read_small(on_its_way / kList);
  if (!list.ok() && !absl::IsNotFound(list.status())) return list.status();
  for (const absl::string_view line : absl::StrSplit(list.value_or(""), '\n', absl::SkipEmpty())) {
    const std::pair<std::string, std::string> one = absl::StrSplit(line, absl::MaxSplits(' ', 1));
    const fs::path from = on_its_way / one.first;
    std::error_code error;
    if (!fs::exists(fs::symlink_status(from, error))) continue;  // this file is in its place
    if (!stays_within(one.second)) return absl::DataLossError(fmt::format("{}: damaged", from.string()));
    if (const int wrong = give_place(from, folder / one.second, true); wrong != 0)
      return cannot_be_made(folder / one.second, std::strerror(wrong));
  }
  std::error_code ignored;
  if (list.ok()) fs::remove_all(on_its_way, ignored);
  return absl::OkStatus();
}

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
  // Folders that contain something stay.
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
  const std::string staged = std::to_string(files_.size());
  PACELINE_RETURN_IF_ERROR(write_new(staging_ / staged, bytes, mode, folder_ / name));
  files_.push_back({staged, name, folder_ / name});
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
  PACELINE_RETURN_IF_ERROR(decide());
  return bring(replace);
}

// From here on the next process finishes the work if this one is killed.
absl::Status StagedFiles::decide() {
  std::string list;
  for (const File& file : files_) list += file.staged + ' ' + file.name.string() + '\n';
  PACELINE_RETURN_IF_ERROR(write_new(staging_ / kList, list, kOwnerOnly, folder_ / kOnItsWay / kList));
  const fs::path on_its_way = folder_ / kOnItsWay;
  if (::rename(staging_.c_str(), on_its_way.c_str()) != 0) {
    const bool others = errno == ENOTEMPTY || errno == EEXIST;
    return cannot_be_made(on_its_way,
                          others ? "another process makes certificates here" : std::strerror(errno));
  }
  staging_ = on_its_way;
  return absl::OkStatus();
}

absl::Status StagedFiles::bring(bool replace) {
  for (std::size_t i = 0; i < files_.size(); ++i) {
    const File& file = files_[i];
    const int error = give_place(staging_ / file.staged, file.place, replace);
    if (error == 0) continue;
    if (error == ENOENT) continue;  // another process has finished this
    if (replace) {
      // replaced files are gone, so the files that are left are brought to their places later
      staging_.clear();
    } else {
      take_back(i);
    }
    return cannot_be_made(file.place, std::strerror(error));
  }
  return absl::OkStatus();
}

void StagedFiles::take_back(std::size_t count) {
  for (std::size_t i = 0; i < count; ++i)
    ::rename(files_[i].place.c_str(), (staging_ / files_[i].staged).c_str());
  ::unlink((staging_ / kList).c_str());
}

}  // namespace paceline::security
