// The files of one checkpoint, by their names: in a folder of this host, or with the host that keeps the run.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include "paceline/records/store/files.h"

namespace paceline::store {

class CheckpointFiles {
 public:
  virtual ~CheckpointFiles() = default;
  // Begins a new file.
  virtual absl::StatusOr<std::unique_ptr<FileSink>> create(const std::string& name) = 0;
  // The names of all files.
  virtual absl::StatusOr<std::vector<std::string>> names() = 0;
  // A path at which that file can be read while this object lives. Errors: NotFound, perhaps only when the
  // file is read.
  virtual absl::StatusOr<std::filesystem::path> to_read(const std::string& name) = 0;
  // The place of the files, for people.
  virtual std::string where() const = 0;
  // Replaces the path that to_read() gave, in an error about a file, by the path that people know.
  virtual absl::Status in_words(const absl::Status& status) const { return status; }
};

class FolderFiles final : public CheckpointFiles {
 public:
  explicit FolderFiles(std::filesystem::path folder) : folder_(std::move(folder)) {}

  absl::StatusOr<std::unique_ptr<FileSink>> create(const std::string& name) override;
  absl::StatusOr<std::vector<std::string>> names() override { return names_in(folder_); }
  absl::StatusOr<std::filesystem::path> to_read(const std::string& name) override { return folder_ / name; }
  std::string where() const override { return folder_.string(); }

 private:
  const std::filesystem::path folder_;
};

}  // namespace paceline::store
