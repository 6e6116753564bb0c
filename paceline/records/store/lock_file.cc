#include "paceline/records/store/lock_file.h"

#include <fcntl.h>
#include <sys/file.h>

#include <cerrno>
#include <thread>
#include <utility>

#include "paceline/records/store/files.h"

namespace paceline::store {

namespace {

constexpr std::chrono::milliseconds kLockPause{20};

}  // namespace

absl::StatusOr<std::optional<FileDescriptor>> lock_file(const std::filesystem::path& path,
                                                        std::chrono::milliseconds patience) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  FileDescriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666));
  if (!file.valid()) return io_error(path, "opened", errno);
  while (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return io_error(path, "locked", errno);
    if (std::chrono::steady_clock::now() >= deadline) return std::nullopt;
    std::this_thread::sleep_for(kLockPause);
  }
  return std::optional(std::move(file));
}

}  // namespace paceline::store
