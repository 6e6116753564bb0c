#include "paceline/store/folder_mark.h"

#include <sys/random.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "paceline/base/status_macros.h"
#include "paceline/store/files.h"

namespace paceline::store {

namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kLongestMark = 256;
constexpr std::chrono::milliseconds kMarkPause{100};

absl::StatusOr<std::string> random_text() {
  std::array<std::uint64_t, 2> words{};
  if (getrandom(words.data(), sizeof words, 0) != sizeof words)
    return absl::UnavailableError("the system has no randomness to give");
  return fmt::format("{:016x}{:016x}\n", words[0], words[1]);
}

absl::Status not_shared(const fs::path& file, const std::string& why) {
  return absl::FailedPreconditionError(fmt::format(
      "{} is not the folder that the first host has at that path ({}): it has to be on a disk that all hosts "
      "share; mount that there, or name a folder on one with runs_dir",
      file.parent_path().string(), why));
}

}  // namespace

absl::StatusOr<FolderMark> FolderMark::leave(const fs::path& file) {
  PACELINE_ASSIGN_OR_RETURN(std::string text, random_text());
  PACELINE_RETURN_IF_ERROR(atomic_write(file, text));
  return FolderMark(file, std::move(text));
}

FolderMark::FolderMark(FolderMark&& other) noexcept
    : file_(std::exchange(other.file_, {})), text_(std::move(other.text_)) {}

FolderMark::~FolderMark() {
  if (!file_.empty() && stands()) ::unlink(file_.c_str());
}

bool FolderMark::stands() const {
  const auto found = read_file(file_, kLongestMark);
  if (!found.ok()) return !absl::IsNotFound(found.status());
  return *found == text_;
}

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
  const auto mark = FolderMark::leave(file.string() + "-" + own);
  if (mark.ok()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      fmt::format("{}; every host writes its part of a checkpoint there: let this user write on that disk",
                  std::string(mark.status().message())));
}

}  // namespace paceline::store
