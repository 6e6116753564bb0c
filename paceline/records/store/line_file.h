// A text file that grows line by line: metrics.jsonl. One thread, one process.
//
// Invariant: the file is whole lines. A line that does not fit on the disk is taken back, and the torn end
// that a killed process left is cut off when the file is opened again.
#pragma once

#include <filesystem>
#include <string>
#include <utility>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include "paceline/base/file_descriptor.h"

namespace paceline::store {

class LineFile {
 public:
  // Makes the file if it is not there. Errors: it is a link or a pipe; the file system's.
  static absl::StatusOr<LineFile> open(const std::filesystem::path& path);

  // `line` comes without its end. Errors: InvalidArgument if it contains a line break; ResourceExhausted.
  absl::Status append_line(const std::string& line);

 private:
  LineFile(std::filesystem::path path, FileDescriptor file)
      : path_(std::move(path)), file_(std::move(file)) {}
  absl::Status cut_torn_end();

  std::filesystem::path path_;
  FileDescriptor file_;
};

}  // namespace paceline::store
