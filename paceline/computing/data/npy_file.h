// An NPY file in memory, without a copy: its pages are the kernel's own, so processes of one host share them,
// and unused pages are never read from disk. Any thread may read it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include "paceline/base/file_descriptor.h"
#include "paceline/computing/data/npy_header.h"

namespace paceline::data {

class NpyFile {
 public:
  // Believes nothing that the file says of itself: it has exactly the values that its header promises, or is
  // an error that names it and the fix.
  static absl::StatusOr<NpyFile> open(const std::filesystem::path& path);
  NpyFile(NpyFile&& other) noexcept;
  NpyFile& operator=(NpyFile&&) = delete;
  ~NpyFile();

  const std::string& path() const { return path_; }
  NpyType type() const { return header_.type; }
  const std::vector<std::int64_t>& shape() const { return header_.shape; }
  // The values are in C order, and not aligned to anything.
  const std::byte* values() const { return mapped_ + header_.data_begin; }
  std::int64_t bytes() const { return header_.values * bytes_of(header_.type); }

  // A process ends if it reads from a file that was cut short, so call this first. Errors: the file was
  // written to since it was opened. (Another file of its name changes nothing.)
  absl::Status check_unchanged() const;

 private:
  // The state of the file when it was opened.
  struct Stamp {
    std::int64_t size = 0;
    std::int64_t seconds = 0;
    std::int64_t nanoseconds = 0;
    friend bool operator==(const Stamp&, const Stamp&) = default;
  };

  NpyFile() = default;
  static Stamp stamp_of(const FileDescriptor& file);

  std::string path_;
  FileDescriptor file_;
  Stamp stamp_;
  const std::byte* mapped_ = nullptr;
  NpyHeader header_;
};

}  // namespace paceline::data
