// For LD_PRELOAD: keeps what a disk is sure to have after a power loss. Whenever a file or a folder below
// PACELINE_SYNC_ROOT is synced, its content goes to PACELINE_SYNC_KEPT, under its identity: a file's bytes,
// or a folder's names with the identities that they lead to. What was never synced is not there.
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "tests/disk_identity.h"

namespace {

std::atomic<int> count = 0;

using paceline::tests::disk_identity;

// Whole or not at all: the process may be killed at any moment.
void keep(const std::string& whose, const std::string& bytes) {
  const std::string path = std::string(std::getenv("PACELINE_SYNC_KEPT")) + "/" + whose;
  const std::string temporary = path + "." + std::to_string(getpid()) + "." + std::to_string(count++);
  const int file = open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (file < 0) return;
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t written = write(file, bytes.data() + done, bytes.size() - done);
    if (written <= 0) break;
    done += static_cast<std::size_t>(written);
  }
  close(file);
  if (done == bytes.size()) rename(temporary.c_str(), path.c_str());
}

std::string content_of_file(const char* path) {
  std::string bytes;
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  char buffer[65536];
  ssize_t some = 0;
  while (file >= 0 && (some = read(file, buffer, sizeof buffer)) > 0)
    bytes.append(buffer, static_cast<std::size_t>(some));
  if (file >= 0) close(file);
  return bytes;
}

std::string content_of_folder(const char* path) {
  std::string lines;
  DIR* folder = opendir(path);
  while (folder != nullptr) {
    const dirent* entry = readdir(folder);
    if (entry == nullptr) break;
    if (std::strcmp(entry->d_name, ".") == 0 || std::strcmp(entry->d_name, "..") == 0) continue;
    const std::string whose = disk_identity(dirfd(folder), entry->d_name);
    if (!whose.empty()) lines += whose + (entry->d_type == DT_DIR ? " d " : " f ") + entry->d_name + "\n";
  }
  if (folder != nullptr) closedir(folder);
  return lines;
}

void keep_what_is_synced(int fd) {
  const char* root = std::getenv("PACELINE_SYNC_ROOT");
  if (root == nullptr || std::getenv("PACELINE_SYNC_KEPT") == nullptr) return;
  const std::string own = "/proc/self/fd/" + std::to_string(fd);
  char path[PATH_MAX];
  const ssize_t length = readlink(own.c_str(), path, sizeof path - 1);
  if (length <= 0) return;
  path[length] = '\0';
  if (std::strncmp(path, root, std::strlen(root)) != 0) return;
  struct stat about {};
  if (fstat(fd, &about) != 0) return;
  // The path goes through the descriptor, because the file may have no name any more, or another one.
  if (S_ISREG(about.st_mode)) keep(disk_identity(fd, ""), content_of_file(own.c_str()));
  if (S_ISDIR(about.st_mode)) keep(disk_identity(fd, ""), content_of_folder(own.c_str()));
}

int sync_and_keep(const char* name, int fd) {
  const auto real = reinterpret_cast<int (*)(int)>(dlsym(RTLD_NEXT, name));
  const int result = real(fd);
  const int error = errno;
  if (result == 0) keep_what_is_synced(fd);
  errno = error;
  return result;
}

}  // namespace

extern "C" int fsync(int fd) { return sync_and_keep("fsync", fd); }
extern "C" int fdatasync(int fd) { return sync_and_keep("fdatasync", fd); }
