// Bytes to and from disk, for all code that keeps files. Any thread; only one thread at a time writes a path.
//
// Invariant: a file that is written here is on disk either whole or not at all, even if the process is
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

// The errno `error` as one line that names `path`: ResourceExhausted if the disk is full, NotFound,
// PermissionDenied, InvalidArgument for a link that is not followed, otherwise Unavailable. `done`: what
// could not be done to the file, for example "written".
absl::Status io_error(const std::filesystem::path& path, const std::string& done, int error);

// The error for a path that is a link, a folder, a pipe or a device.
absl::Status not_regular(const std::filesystem::path& path);

// Errors: InvalidArgument for an empty path; NotFound if the path is relative and the working directory is
// gone.
absl::StatusOr<std::filesystem::path> absolute_path(const std::filesystem::path& path);

// Opens a regular file to read. Errors: NotFound; InvalidArgument if it is a directory, a pipe or a device.
absl::StatusOr<FileDescriptor> open_to_read(const std::filesystem::path& path, std::int64_t& size);

// Reads up to `count` bytes from `offset`; fewer only at the end of the file.
absl::StatusOr<std::size_t> read_at(const FileDescriptor& file, const std::filesystem::path& path,
                                    std::int64_t offset, void* bytes, std::size_t count);

// Reads the whole file. Errors: InvalidArgument if it is longer than `max_bytes`.
absl::StatusOr<std::string> read_file(const std::filesystem::path& path, std::int64_t max_bytes);

// Reads the file in pieces of `piece_bytes`, for as long as `take` returns true. Returns the CRC-32 of the
// pieces that `take` got. Errors: DataLoss if the file becomes shorter meanwhile.
absl::StatusOr<std::uint32_t> read_pieces(const std::filesystem::path& path, std::size_t piece_bytes,
                                          const std::function<bool(std::string& piece)>& take);

// The names of everything in a folder. Errors: NotFound.
absl::StatusOr<std::vector<std::string>> names_in(const std::filesystem::path& folder);

// Writes all bytes, after those written before.
absl::Status write_all(const FileDescriptor& file, const std::filesystem::path& path, const void* bytes,
                       std::size_t count);

absl::Status move_to(const std::filesystem::path& from, const std::filesystem::path& to);
// A free name beside that path: "….set-aside".
std::filesystem::path aside_of(const std::filesystem::path& path);

// Makes a new directory, for this user alone: base/label, or if that name is taken label-2 and so on. Errors:
// the system's.
absl::StatusOr<std::filesystem::path> make_new_directory(const std::filesystem::path& base,
                                                         const std::string& label);

// Makes names durable that were created, renamed or removed in a directory.
absl::Status sync_directory(const std::filesystem::path& directory);

// A file that is written piece by piece. The file exists once it is committed; without a commit nothing is
// left of it.
class FileSink {
 public:
  virtual ~FileSink() = default;
  virtual absl::Status write(const void* bytes, std::size_t count) = 0;
  virtual absl::Status commit() = 0;
};

// A file that gets its name only once all of it is on disk; until then a file of that name is untouched.
class AtomicFile final : public FileSink {
 public:
  // Its name until commit() is that of the file, this, and a number.
  static constexpr char kUncommitted[] = ".partial-";

  static absl::StatusOr<AtomicFile> create(const std::filesystem::path& path);
  AtomicFile(AtomicFile&&) noexcept = default;
  ~AtomicFile() override;

  absl::Status write(const void* bytes, std::size_t count) override {
    return write_all(file_, path_, bytes, count);
  }
  absl::Status commit() override;
  // The path of the bytes until commit().
  const std::filesystem::path& temporary() const { return temporary_; }

 private:
  AtomicFile(std::filesystem::path path, std::filesystem::path temporary, FileDescriptor file);

  std::filesystem::path path_;
  std::filesystem::path temporary_;
  FileDescriptor file_;
};

absl::Status atomic_write(const std::filesystem::path& path, const std::string& bytes);

}  // namespace paceline::store
