// Files that come to their places together, once all of them are on disk: whatever goes wrong before leaves
// nothing, and what is to be replaced stays until then. Any thread.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

namespace paceline::security {

class StagedFiles {
 public:
  // For `folder`, which is made if it is not there. Errors: what the file system says, here and below.
  static absl::StatusOr<StagedFiles> in(const std::filesystem::path& folder);
  StagedFiles(StagedFiles&&) noexcept = default;
  // Without a commit nothing is left, folders that were made included.
  ~StagedFiles();

  // `name`: in the folder, or in a folder in it.
  absl::Status add(const std::filesystem::path& name, const std::string& bytes, unsigned mode);
  // In the order of the adds. Errors: AlreadyExists when there is such a file, unless it is to be replaced,
  // or what is there is no file.
  absl::Status commit(bool replace);

 private:
  struct File {
    std::filesystem::path staged, place;
  };

  explicit StagedFiles(std::filesystem::path folder) : folder_(std::move(folder)) {}
  absl::Status make_folders(const std::filesystem::path& folder);
  absl::Status check_place(const std::filesystem::path& place, bool replace) const;

  std::filesystem::path folder_;
  std::filesystem::path staging_;  // within it; empty: there is none
  std::vector<File> files_;
  std::vector<std::filesystem::path> made_;  // folders, each before those in it
};

}  // namespace paceline::security
