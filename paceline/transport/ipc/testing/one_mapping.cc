// Linked into the stress test: mapping the same shared memory twice in one process gives the same addresses.
// A race detector goes by addresses, so it would not see that a writer and a reader with mappings of their
// own use the same memory. (The linker's --wrap=mmap,--wrap=munmap sends the calls here.)
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstddef>
#include <mutex>
#include <vector>

extern "C" {
void* __real_mmap(void* address, std::size_t bytes, int protection, int flags, int fd, off_t offset);
int __real_munmap(void* address, std::size_t bytes);
void* __wrap_mmap(void* address, std::size_t bytes, int protection, int flags, int fd, off_t offset);
int __wrap_munmap(void* address, std::size_t bytes);
}

namespace {

struct Region {
  ino_t file;
  std::byte* base;
  std::size_t bytes;
  int users;
};

std::mutex mutex;
std::vector<Region> regions;

}  // namespace

void* __wrap_mmap(void* address, std::size_t bytes, int protection, int flags, int fd, off_t offset) {
  struct stat info {};
  if ((flags & MAP_SHARED) == 0 || fstat(fd, &info) != 0) {
    return __real_mmap(address, bytes, protection, flags, fd, offset);
  }
  const std::lock_guard lock(mutex);
  for (Region& region : regions) {
    if (region.file != info.st_ino) continue;
    ++region.users;
    return region.base + offset;
  }
  const auto whole = static_cast<std::size_t>(info.st_size);
  void* base = __real_mmap(nullptr, whole, PROT_READ | PROT_WRITE, flags, fd, 0);
  if (base == MAP_FAILED) return base;
  regions.push_back({info.st_ino, static_cast<std::byte*>(base), whole, 1});
  return static_cast<std::byte*>(base) + offset;
}

int __wrap_munmap(void* address, std::size_t bytes) {
  const std::lock_guard lock(mutex);
  const auto* at = static_cast<const std::byte*>(address);
  const auto found = std::find_if(regions.begin(), regions.end(), [&](const Region& region) {
    return at >= region.base && at < region.base + region.bytes;
  });
  if (found == regions.end()) return __real_munmap(address, bytes);
  if (--found->users > 0) return 0;
  const Region gone = *found;
  regions.erase(found);
  return __real_munmap(gone.base, gone.bytes);
}
