#include "paceline/transport/security/secret_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include <fmt/format.h>

#include "paceline/base/core_dumps.h"
#include "paceline/base/no_room.h"

namespace paceline::security {

namespace {

constexpr std::size_t kMostBytes = 64 << 10;

absl::Status trouble(const std::filesystem::path& path, const char* done, int error) {
  if (auto full = no_room(path, error)) return *std::move(full);
  const std::string line = fmt::format("{}: cannot be {}: {}", path.string(), done, std::strerror(error));
  if (error == ENOENT) return absl::NotFoundError(line);
  if (error == EEXIST) return absl::AlreadyExistsError(line);
  return absl::PermissionDeniedError(line);
}

bool write_all(int file, const std::string& bytes) {
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t count = ::write(file, bytes.data() + done, bytes.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    done += static_cast<std::size_t>(count);
  }
  return ::fsync(file) == 0;
}

absl::StatusOr<std::string> read_all(int file, const std::filesystem::path& path) {
  struct stat about {};
  if (::fstat(file, &about) != 0) return trouble(path, "read", errno);
  if (!S_ISREG(about.st_mode))
    return absl::InvalidArgumentError(fmt::format("{}: not a file", path.string()));
  std::string bytes(kMostBytes + 1, '\0');
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t count = ::read(file, bytes.data() + done, bytes.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return trouble(path, "read", errno);
    if (count == 0) break;
    done += static_cast<std::size_t>(count);
  }
  if (done > kMostBytes)
    return absl::InvalidArgumentError(
        fmt::format("{}: too large for a key, a certificate or a token", path.string()));
  bytes.resize(done);
  return bytes;
}

}  // namespace

absl::Status write_new(const std::filesystem::path& path, const std::string& bytes, unsigned mode,
                       const std::filesystem::path& shown) {
  const std::filesystem::path& named = shown.empty() ? path : shown;
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
  if (file < 0) return trouble(named, "made", errno);
  const bool written = write_all(file, bytes);
  const int error = errno;
  ::close(file);
  if (written) return absl::OkStatus();
  ::unlink(path.c_str());
  return trouble(named, "written", error);
}

absl::StatusOr<std::string> read_small(const std::filesystem::path& path) {
  keep_memory_out_of_core_dumps();
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return trouble(path, "read", errno);
  auto bytes = read_all(file, path);
  ::close(file);
  return bytes;
}

}  // namespace paceline::security
