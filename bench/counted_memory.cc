// Loaded before a program (LD_PRELOAD): counts the memory that it has allocated and not freed. The memory that a process
// occupies is more, because the C library keeps what is free for later.
#include <malloc.h>
#include <cerrno>

#include <atomic>
#include <cstddef>

namespace {

constexpr std::size_t kLeast = 4096;  // smaller blocks are Python's own
std::atomic<long> live{0}, most{0};

void* counted(void* block) {
  const std::size_t size = malloc_usable_size(block);  // 0 if there is no block
  if (size < kLeast) return block;
  const long now = live.fetch_add(static_cast<long>(size)) + static_cast<long>(size);
  long before = most.load();
  while (now > before && !most.compare_exchange_weak(before, now)) {
  }
  return block;
}

void uncount(void* block) {
  const std::size_t size = malloc_usable_size(block);
  if (size >= kLeast) live.fetch_sub(static_cast<long>(size));
}

}  // namespace

extern "C" {

// The GNU C library's functions under their second names.
void* __libc_malloc(std::size_t size);
void __libc_free(void* block);
void* __libc_calloc(std::size_t count, std::size_t size);
void* __libc_realloc(void* block, std::size_t size);
void* __libc_memalign(std::size_t alignment, std::size_t size);

void* malloc(std::size_t size) { return counted(__libc_malloc(size)); }
void* calloc(std::size_t count, std::size_t size) { return counted(__libc_calloc(count, size)); }
void* memalign(std::size_t alignment, std::size_t size) { return counted(__libc_memalign(alignment, size)); }
void* aligned_alloc(std::size_t alignment, std::size_t size) { return memalign(alignment, size); }

void free(void* block) {
  uncount(block);
  __libc_free(block);
}

void* realloc(void* block, std::size_t size) {
  uncount(block);
  void* moved = __libc_realloc(block, size);
  if (moved == nullptr && size > 0) counted(block);
  return counted(moved);
}

int posix_memalign(void** block, std::size_t alignment, std::size_t size) {
  void* found = memalign(alignment, size);
  if (found == nullptr) return ENOMEM;
  *block = found;
  return 0;
}

long counted_bytes() { return live.load(); }
// The most since the last call.
long most_counted_bytes() { return most.exchange(live.load()); }
}
