// A file with a text that nobody can guess, so that a reader knows who wrote it. run_mark.h and
// shared_folder.h give it a meaning. One thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include <absl/status/statusor.h>

namespace paceline::store {

// A longer text is no mark.
inline constexpr std::int64_t kLongestMark = 256;

// The file is removed with the object, unless another mark has taken its place.
class MarkFile {
 public:
  // Writes a mark, in place of one that a killed process left: there is a mark at every moment. Errors: the
  // file system's.
  static absl::StatusOr<MarkFile> leave(const std::filesystem::path& file);
  MarkFile(MarkFile&& other) noexcept;
  MarkFile& operator=(MarkFile&&) = delete;
  ~MarkFile();

  const std::filesystem::path& file() const { return file_; }
  const std::string& text() const { return text_; }
  // False if another mark is in its place, or it was removed. True if the file cannot be read.
  bool stands() const;
  // Keeps the file when the object is destroyed.
  void keep() { file_.clear(); }

 private:
  MarkFile(std::filesystem::path file, std::string text) : file_(std::move(file)), text_(std::move(text)) {}

  std::filesystem::path file_;  // empty: nothing is to be removed
  std::string text_;
};

}  // namespace paceline::store
