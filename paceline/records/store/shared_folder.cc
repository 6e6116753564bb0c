#include "paceline/records/store/shared_folder.h"

#include <thread>

#include <fmt/format.h>

#include "paceline/base/status_macros.h"
#include "paceline/records/store/files.h"
#include "paceline/records/store/mark_file.h"

namespace paceline::store {

namespace {

namespace fs = std::filesystem;

constexpr std::chrono::milliseconds kMarkPause{100};

absl::Status not_shared(const fs::path& file, const std::string& why) {
  return absl::FailedPreconditionError(fmt::format(
      "{} is not the folder that the first host has at that path ({}): with cluster.shared_folder = "
      "true it has to be on a disk that all hosts share; mount that there, name a folder on one with "
      "runs_dir, "
      "or leave the key out",
      file.parent_path().string(), why));
}

}  // namespace

absl::Status find_mark(const fs::path& file, const std::string& text, std::chrono::milliseconds patience) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  while (true) {
    const auto found = read_file(file, kLongestMark);
    if (found.ok() && *found == text) return absl::OkStatus();
    if (std::chrono::steady_clock::now() >= deadline) {
      return not_shared(file, found.ok() ? fmt::format("{}: the mark of another", file.string())
                                         : std::string(found.status().message()));
    }
    std::this_thread::sleep_for(kMarkPause);
  }
}

absl::Status check_shared(const fs::path& file, const std::string& text, const std::string& own,
                          std::chrono::milliseconds patience) {
  PACELINE_RETURN_IF_ERROR(find_mark(file, text, patience));
  const auto mark = MarkFile::leave(file.string() + "-" + own);
  if (mark.ok()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      fmt::format("{}; every host writes its part of a checkpoint there: let this user write on that disk",
                  std::string(mark.status().message())));
}

}  // namespace paceline::store
