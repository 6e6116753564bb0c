// Bytes to and from disk, for all code that keeps files. Any thread; only one thread at a time writes a path.
//
// Invariant: a file that is written here is on disk either whole or not at all, even when the process is
// killed, the disk fills up or the machine loses its power. The size of a file that is read is never trusted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include "paceline/base/file_descriptor.h"

namespace paceline::store {

// The errno `error` as one line that names `path`: ResourceExhausted when the disk is full, NotFound,
// PermissionDenied, InvalidArgument for a link that is not followed, otherwise Unavailable. `done`: what
// could not be done to it, "written".
absl::Status io_error(const std::filesystem::path& path, const std::string& done, int error);

// What is there is a link, a folder, a pipe or a device.
absl::Status not_regular(const std::filesystem::path& path);

// Errors: InvalidArgument for an empty path; NotFound where it is relative and the working directory is gone.
absl::StatusOr<std::filesystem::path> absolute_path(const std::filesystem::path& path);

// Opens a regular file to read. Errors: NotFound; InvalidArgument when it is a directory, a pipe or a device.
absl::StatusOr<FileDescriptor> open_to_read(const std::filesystem::path& path, std::int64_t& size);

// Up to `count` bytes from `offset`; fewer only at the end of the file.
absl::StatusOr<std::size_t> read_at(const FileDescriptor& file, const std::filesystem::path& path,
                                    std::int64_t offset, void* bytes, std::size_t count);

// The whole file. Errors: InvalidArgument when it is longer than `max_bytes`.
absl::StatusOr<std::string> read_file(const std::filesystem::path& path, std::int64_t max_bytes);

// The whole file, in pieces of so many bytes, for as long as `take` wants another one. The CRC-32 of what it
// took. Errors: DataLoss when the file becomes shorter meanwhile.
absl::StatusOr<std::uint32_t> read_pieces(const std::filesystem::path& path, std::size_t piece_bytes,
                                          const std::function<bool(std::string& piece)>& take);

// Of all that is in a folder. Errors: NotFound.
absl::StatusOr<std::vector<std::string>> names_in(const std::filesystem::path& folder);

// Writes all of it, at the end of what was written before.
absl::Status write_all(const FileDescriptor& file, const std::filesystem::path& path, const void* bytes,
                       std::size_t count);

absl::Status move_to(const std::filesystem::path& from, const std::filesystem::path& to);
// A name beside that one which nothing has: "….set-aside".
std::filesystem::path aside_of(const std::filesystem::path& path);

// A directory that was not there, for this user alone: base/label, or where that name is taken label-2 and so
// on. Errors: as of the system.
absl::StatusOr<std::filesystem::path> make_new_directory(const std::filesystem::path& base,
                                                         const std::string& label);

// Makes names that were created, renamed or removed in a directory last.
absl::Status sync_directory(const std::filesystem::path& directory);

// Where the bytes of a file go, one after the other. The file is there once they are committed, and without
// that nothing is left of it.
class FileSink {
 public:
  virtual ~FileSink() = default;
  virtual absl::Status write(const void* bytes, std::size_t count) = 0;
  virtual absl::Status commit() = 0;
};

// A file that gets its name only once all of it is on disk; until then whatever had that name is untouched.
class AtomicFile final : public FileSink {
 public:
  static absl::StatusOr<AtomicFile> create(const std::filesystem::path& path);
  AtomicFile(AtomicFile&&) noexcept = default;
  ~AtomicFile() override;

  absl::Status write(const void* bytes, std::size_t count) override {
    return write_all(file_, path_, bytes, count);
  }
  absl::Status commit() override;
  // Where its bytes are until then.
  const std::filesystem::path& temporary() const { return temporary_; }

 private:
  AtomicFile(std::filesystem::path path, std::filesystem::path temporary, FileDescriptor file);

  std::filesystem::path path_;
  std::filesystem::path temporary_;
  FileDescriptor file_;
};

absl::Status atomic_write(const std::filesystem::path& path, const std::string& bytes);

}  // namespace paceline::store
