#include "paceline/records/store/files.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/random.h>
#include <sys/stat.h>

#include "paceline/base/no_room.h"
#include "paceline/base/status_macros.h"
#include "paceline/records/store/crc32.h"

namespace paceline::store {

namespace fs = std::filesystem;

namespace {

fs::path directory_of(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

// A unique name, so that two writers never meet in one temporary file.
fs::path temporary_name(const fs::path& path) {
  std::uint32_t number = 0;
  if (::getrandom(&number, sizeof number, 0) != sizeof number)
    number = static_cast<std::uint32_t>(::getpid());
  return fs::path(fmt::format("{}{}{:08x}", path.string(), AtomicFile::kUncommitted, number));
}

}  // namespace

absl::Status io_error(const fs::path& path, const std::string& done, int error) {
  if (auto full = no_room(path, error)) return *std::move(full);
  const std::string name = path.string();
  switch (error) {
    case ENOENT:
      return absl::NotFoundError(fmt::format("{}: no such file or directory; check the path", name));
    case ELOOP:
      return absl::InvalidArgumentError(
          fmt::format("{}: is a symbolic link, which is not followed here; put the file itself there", name));
    case EACCES:
    case EPERM:
      return absl::PermissionDeniedError(
          fmt::format("{}: may not be {}; check the permissions of it and its directory", name, done));
    case EROFS:
      return absl::PermissionDeniedError(fmt::format(
          "{}: cannot be {} on a read-only file system; name a file or folder on another one", name, done));
    default:
      return absl::UnavailableError(fmt::format("{}: cannot be {}: {}; check the path and the disk", name,
                                                done, std::generic_category().message(error)));
  }
}

absl::Status not_regular(const fs::path& path) {
  return absl::InvalidArgumentError(fmt::format("{}: not a regular file; name one", path.string()));
}

absl::StatusOr<fs::path> absolute_path(const fs::path& path) {
  if (path.empty()) return absl::InvalidArgumentError("the name of a file or folder is empty; write one");
  if (path == "~" || path.native().starts_with("~/")) {
    return absl::InvalidArgumentError(fmt::format(
        "{}: only a shell knows that ~ is your home folder; write the whole path", path.string()));
  }
  std::error_code error;
  fs::path whole = fs::absolute(path, error);
  if (!error) return whole.lexically_normal();
  return absl::NotFoundError(fmt::format(
      "{}: the working directory is gone ({}); change to one that is there", path.string(), error.message()));
}

absl::StatusOr<FileDescriptor> open_to_read(const fs::path& path, std::int64_t& size) {
  // Without O_NONBLOCK a pipe of that name would hang the process.
  FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat about {};
  if (!file.valid() || ::fstat(file.get(), &about) != 0) return io_error(path, "read", errno);
  if (!S_ISREG(about.st_mode)) return not_regular(path);
  size = about.st_size;
  return file;
}

absl::StatusOr<std::size_t> read_at(const FileDescriptor& file, const fs::path& path, std::int64_t offset,
                                    void* bytes, std::size_t count) {
  std::size_t done = 0;
  while (done < count) {
    const ssize_t got = ::pread(file.get(), static_cast<char*>(bytes) + done, count - done,
                                static_cast<off_t>(offset) + static_cast<off_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return io_error(path, "read", errno);
    if (got == 0) break;
    done += static_cast<std::size_t>(got);
  }
  return done;
}

absl::StatusOr<std::string> read_file(const fs::path& path, std::int64_t max_bytes) {
  std::int64_t size = 0;
  PACELINE_ASSIGN_OR_RETURN(const FileDescriptor file, open_to_read(path, size));
  if (size > max_bytes) {
    return absl::InvalidArgumentError(
        fmt::format("{}: {} bytes long, and no more than {} are read; check that it is the right file",
                    path.string(), size, max_bytes));
  }
  std::string bytes(static_cast<std::size_t>(size), '\0');
  PACELINE_ASSIGN_OR_RETURN(const std::size_t got, read_at(file, path, 0, bytes.data(), bytes.size()));
  bytes.resize(got);
  return bytes;
}

absl::StatusOr<std::uint32_t> read_pieces(const fs::path& path, std::size_t piece_bytes,
                                          const std::function<bool(std::string& piece)>& take) {
  std::int64_t size = 0;
  PACELINE_ASSIGN_OR_RETURN(const FileDescriptor file, open_to_read(path, size));
  std::string piece;
  std::uint32_t crc = 0;
  for (std::int64_t at = 0; at < size; at += static_cast<std::int64_t>(piece.size())) {
    piece.resize(
        static_cast<std::size_t>(std::min<std::int64_t>(static_cast<std::int64_t>(piece_bytes), size - at)));
    PACELINE_ASSIGN_OR_RETURN(const std::size_t got, read_at(file, path, at, piece.data(), piece.size()));
    if (got != piece.size()) return absl::DataLossError(fmt::format("{}: truncated", path.string()));
    crc = crc32_after(piece.data(), piece.size(), crc);
    if (!take(piece)) break;
  }
  return crc;
}

absl::StatusOr<std::vector<std::string>> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error); !error && entry != fs::directory_iterator();
       entry.increment(error))
    names.push_back(entry->path().filename().string());
  if (error) return io_error(folder, "read", error.value());
  return names;
}

absl::Status write_all(const FileDescriptor& file, const fs::path& path, const void* bytes,
                       std::size_t count) {
  const char* next = static_cast<const char*>(bytes);
  while (count > 0) {
    const ssize_t wrote = ::write(file.get(), next, count);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) return io_error(path, "written", errno);
    next += wrote;
    count -= static_cast<std::size_t>(wrote);
  }
  return absl::OkStatus();
}

absl::Status move_to(const fs::path& from, const fs::path& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) return io_error(from, "renamed", errno);
  return absl::OkStatus();
}

fs::path aside_of(const fs::path& path) {
  fs::path aside = path.string() + ".set-aside";
  std::error_code error;
  for (int n = 2; fs::exists(aside, error); ++n) aside = fmt::format("{}.set-aside-{}", path.string(), n);
  return aside;
}

// mkdir tells a new directory from an existing one in one step.
absl::StatusOr<fs::path> make_new_directory(const fs::path& base, const std::string& label) {
  constexpr int kMostTries = 1000;
  for (int n = 1; n <= kMostTries; ++n) {
    fs::path path = base / (n == 1 ? label : fmt::format("{}-{}", label, n));
    if (::mkdir(path.c_str(), 0700) == 0) return path;
    if (errno != EEXIST) return io_error(path, "made", errno);
  }
  return absl::AlreadyExistsError(
      fmt::format("{}: exists already; choose another name", (base / label).string()));
}

absl::Status sync_directory(const fs::path& directory) {
  const FileDescriptor file(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!file.valid()) return io_error(directory, "opened", errno);
  // Some network file systems cannot sync a directory, and need not.
  if (::fsync(file.get()) != 0 && errno != EINVAL) return io_error(directory, "written", errno);
  return absl::OkStatus();
}

AtomicFile::AtomicFile(fs::path path, fs::path temporary, FileDescriptor file)
    : path_(std::move(path)), temporary_(std::move(temporary)), file_(std::move(file)) {}

AtomicFile::~AtomicFile() {
  if (file_.valid()) ::unlink(temporary_.c_str());
}

absl::StatusOr<AtomicFile> AtomicFile::create(const fs::path& path) {
  fs::path temporary = temporary_name(path);
  FileDescriptor file(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (!file.valid()) return io_error(path, "written", errno);
  return AtomicFile(path, std::move(temporary), std::move(file));
}

absl::Status AtomicFile::commit() {
  if (::fsync(file_.get()) != 0) return io_error(path_, "written", errno);
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) return io_error(path_, "written", errno);
  file_ = FileDescriptor();
  return sync_directory(directory_of(path_));
}

absl::Status atomic_write(const fs::path& path, const std::string& bytes) {
  PACELINE_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::create(path));
  PACELINE_RETURN_IF_ERROR(file.write(bytes.data(), bytes.size()));
  return file.commit();
}

}  // namespace paceline::store
