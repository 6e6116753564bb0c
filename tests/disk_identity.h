// The name of a file or folder on the disk that tests/power_loss_test.cc makes up. Inode numbers are used
// again, but not at the same moment.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>

#include <string>

namespace paceline::tests {

// The identity of `name` in that folder, or of `folder` itself if `name` is empty. Empty: it is not there.
inline std::string disk_identity(int folder, const char* name) {
  struct statx about {};
  if (statx(folder, name, AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW, STATX_INO | STATX_BTIME, &about) != 0)
    return "";
  return std::to_string(about.stx_ino) + "-" + std::to_string(about.stx_btime.tv_sec) + "-" +
         std::to_string(about.stx_btime.tv_nsec);
}

}  // namespace paceline::tests
