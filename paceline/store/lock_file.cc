#include "paceline/store/lock_file.h"

#include <fcntl.h>
#include <sys/file.h>

#include <cerrno>
#include <utility>

#include "paceline/store/files.h"

namespace paceline::store {

absl::StatusOr<std::optional<FileDescriptor>> lock_file(const std::filesystem::path& path) {
  FileDescriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
  if (!file.valid()) return io_error(path, "opened", errno);
  if (::flock(file.get(), LOCK_EX | LOCK_NB) == 0) return std::optional(std::move(file));
  if (errno == EWOULDBLOCK) return std::nullopt;
  return io_error(path, "locked", errno);
}

}  // namespace paceline::store
