// Files that come to their places together, once all of them are on disk. A failure before leaves nothing,
// and files that are to be replaced stay until then. A process that is killed while the files come to their
// places leaves a list of them, and finish() brings the rest. Any thread.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

namespace paceline::security {

class StagedFiles {
 public:
  // Brings the rest of the files whose commit for `folder` a killed process did not finish. Errors: the file
  // system's.
  static absl::Status finish(const std::filesystem::path& folder);

  // Files for `folder`, which is made if it is not there. Errors: the file system's, here and below.
  static absl::StatusOr<StagedFiles> in(const std::filesystem::path& folder);
  StagedFiles(StagedFiles&&) noexcept = default;
  // Without a commit nothing is left, not even folders that were made.
  ~StagedFiles();

  // `name`: a path in the folder, or in a folder in it.
  absl::Status add(const std::filesystem::path& name, const std::string& bytes, unsigned mode);
  // Brings the files to their places in the order of the adds. Errors: AlreadyExists if there is such a file
  // and `replace` is false, or if a folder is in its place.
  absl::Status commit(bool replace);

 private:
  struct File {
    std::string staged;                 // in staging_
    std::filesystem::path name, place;  // `place`: folder_ / name
  };

  explicit StagedFiles(std::filesystem::path folder) : folder_(std::move(folder)) {}
  absl::Status make_folders(const std::filesystem::path& folder);
  absl::Status check_place(const std::filesystem::path& place, bool replace) const;
  absl::Status decide();
  absl::Status bring(bool replace);
  void take_back(std::size_t count);

  std::filesystem::path folder_;
  std::filesystem::path staging_;  // in folder_; empty: there is none
  std::vector<File> files_;
  std::vector<std::filesystem::path> made_;  // folders, each before those in it
};

}  // namespace paceline::security
