// Whether another host sees the same folder as this one: one leaves a mark in it, and the other looks for
// that and tries to write there as well. For run folders, which have to be on a disk that all hosts share.
// One thread.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

namespace paceline::store {

// Network file systems may show late what another host wrote.
inline constexpr std::chrono::seconds kMarkPatience{5};

// A file with a text that nobody can guess. Goes with the object, unless another one has taken its place.
class FolderMark {
 public:
  // Takes the place of one that a process before left, when it was killed: at no moment there is none.
  // Errors: what the file system says.
  static absl::StatusOr<FolderMark> leave(const std::filesystem::path& file);
  FolderMark(FolderMark&& other) noexcept;
  FolderMark& operator=(FolderMark&&) = delete;
  ~FolderMark();

  const std::filesystem::path& file() const { return file_; }
  const std::string& text() const { return text_; }
  // Nobody has left another mark there since, or taken this one away, as far as can be read.
  bool stands() const;
  // The file stays when the object goes.
  void stay() { file_.clear(); }

 private:
  FolderMark(std::filesystem::path file, std::string text) : file_(std::move(file)), text_(std::move(text)) {}

  std::filesystem::path file_;  // empty: nothing is to be removed
  std::string text_;
};

// Looks for a mark with this text, again and again for so long. Errors: FailedPrecondition, that the folder
// is none that the hosts share.
absl::Status find_mark(const std::filesystem::path& file, const std::string& text,
                       std::chrono::milliseconds patience);

// What a host needs of a run folder: that it finds the mark of the one that made the folder, and can write
// beside it; `own` tells the names of hosts apart. Errors: FailedPrecondition.
absl::Status check_shared(const std::filesystem::path& file, const std::string& text, const std::string& own,
                          std::chrono::milliseconds patience = kMarkPatience);

}  // namespace paceline::store
