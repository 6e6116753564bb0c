// Files that come to their places together, once all of them are on disk: whatever goes wrong before leaves
// nothing, and what is to be replaced stays until then. A process that is killed while they come to their
// places leaves a list of what is to come, and finish() brings the rest. Any thread.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

namespace paceline::security {

class StagedFiles {
 public:
  // Brings what a commit for `folder` left when its process was killed. Errors: what the file system says.
  static absl::Status finish(const std::filesystem::path& folder);

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
    std::string staged;                 // in staging_
    std::filesystem::path name, place;  // in the folder, and with it
  };

  explicit StagedFiles(std::filesystem::path folder) : folder_(std::move(folder)) {}
  absl::Status make_folders(const std::filesystem::path& folder);
  absl::Status check_place(const std::filesystem::path& place, bool replace) const;
  absl::Status decide();
  absl::Status bring(bool replace);
  void take_back(std::size_t count);

  std::filesystem::path folder_;
  std::filesystem::path staging_;  // within it; empty: there is none
  std::vector<File> files_;
  std::vector<std::filesystem::path> made_;  // folders, each before those in it
};

}  // namespace paceline::security
