// A file with a text that nobody can guess, so that a reader knows whose it is. What it stands for is
// in run_mark.h and shared_folder.h. One thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include <absl/status/statusor.h>

namespace paceline::store {

// Longer ones are nobody's.
inline constexpr std::int64_t kLongestMark = 256;

// Goes with the object, unless another one has taken its place.
class MarkFile {
 public:
  // Takes the place of one that a process before left, when it was killed: at no moment there is none.
  // Errors: what the file system says.
  static absl::StatusOr<MarkFile> leave(const std::filesystem::path& file);
  MarkFile(MarkFile&& other) noexcept;
  MarkFile& operator=(MarkFile&&) = delete;
  ~MarkFile();

  const std::filesystem::path& file() const { return file_; }
  const std::string& text() const { return text_; }
  // Nobody has left another mark there since, or taken this one away, as far as can be read.
  bool stands() const;
  // The file stays when the object goes.
  void keep() { file_.clear(); }

 private:
  MarkFile(std::filesystem::path file, std::string text) : file_(std::move(file)), text_(std::move(text)) {}

  std::filesystem::path file_;  // empty: nothing is to be removed
  std::string text_;
};

}  // namespace paceline::store
