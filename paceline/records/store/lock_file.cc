#include "paceline/records/store/lock_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <cerrno>
#include <thread>
#include <utility>

#include "paceline/records/store/files.h"

namespace paceline::store {

namespace {

constexpr std::chrono::milliseconds kLockPause{20};

// False if the process that had the lock has removed the file, or another one has made a new one since.
bool is_still_at(const std::filesystem::path& path, const FileDescriptor& file) {
  struct stat here {
  }, there{};
  return ::fstat(file.get(), &here) == 0 && ::lstat(path.c_str(), &there) == 0 &&
         here.st_ino == there.st_ino && here.st_dev == there.st_dev;
}

}  // namespace

absl::StatusOr<std::optional<FileDescriptor>> lock_file(const std::filesystem::path& path,
                                                        std::chrono::milliseconds patience) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  while (true) {
    FileDescriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666));
    if (!file.valid()) return io_error(path, "opened", errno);
    while (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
      if (errno != EWOULDBLOCK) return io_error(path, "locked", errno);
      if (std::chrono::steady_clock::now() >= deadline) return std::nullopt;
      std::this_thread::sleep_for(kLockPause);
    }
    if (is_still_at(path, file)) return std::optional(std::move(file));
  }
}

}  // namespace paceline::store
