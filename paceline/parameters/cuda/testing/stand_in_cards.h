// Memory of the stand-in's cards: a card is a number of bytes, and an allocation is a memfd. All processes
// that name their cards alike share them. Any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

namespace paceline::cuda::stand_in {

inline constexpr std::size_t kGranularity = std::size_t{2} << 20;

// The numbers that the driver's functions return.
enum Error : int {
  kSuccess = 0,
  kInvalidValue = 1,
  kOutOfMemory = 2,
  kNotInitialized = 3,
  kInvalidDevice = 101,
  kInvalidContext = 201,
  kInvalidHandle = 400,
  kNotFound = 500,
  kNotReady = 600,
  kHostMemoryAlreadyRegistered = 712,
  kHostMemoryNotRegistered = 713,
  kNotSupported = 801,
  kOperatingSystem = 304,
};

// The cards that this process sees.
int card_count();
// The number of one of them among all cards of the host.
int number_on_host(int card);
std::size_t total_bytes(int card);  // its memory

// Bytes that live processes hold of a card. It reads /proc, so no death of a process leaves anything to clean
// up.
std::size_t held_bytes(int card);

// One allocation of a card. Its memory stays while any process has a descriptor of it.
class Allocation {
 public:
  static Error create(int card, std::size_t bytes, std::shared_ptr<Allocation>& out);
  // Copies the descriptor.
  static Error import(int fd, std::shared_ptr<Allocation>& out);
  ~Allocation();
  Allocation(const Allocation&) = delete;
  Allocation& operator=(const Allocation&) = delete;

  int fd() const { return fd_; }
  int card() const { return card_; }
  std::size_t bytes() const { return bytes_; }

 private:
  Allocation(int fd, int card, std::size_t bytes) : fd_(fd), card_(card), bytes_(bytes) {}

  const int fd_;
  const int card_;
  const std::size_t bytes_;
};

// The addresses of this process that the driver knows: reserved, mapped, registered.
class Addresses {
 public:
  Error reserve(std::size_t bytes, std::size_t alignment, std::uint64_t& out);
  Error free(std::uint64_t address, std::size_t bytes);
  Error map(std::uint64_t address, std::size_t bytes, std::shared_ptr<Allocation> allocation);
  // `flags`: 0 none, 1 read, 3 read and write.
  Error set_access(std::uint64_t address, std::size_t bytes, int flags);
  Error unmap(std::uint64_t address, std::size_t bytes);

  Error register_host(void* address, std::size_t bytes);
  Error unregister_host(void* address);
  Error allocate_host(std::size_t bytes, void*& out);
  Error free_host(void* address);

  // Whether a stream may use these bytes: each lies in mapped memory with access, or in registered memory.
  bool known(std::uint64_t address, std::size_t bytes, bool write) const;

 private:
  struct Mapping {
    std::size_t bytes;
    std::shared_ptr<Allocation> allocation;
    int access = 0;
  };
  bool reserved(std::uint64_t address, std::size_t bytes) const;

  mutable std::mutex mutex_;
  std::map<std::uint64_t, std::size_t> reservations_;
  std::map<std::uint64_t, Mapping> mappings_;
  std::map<std::uint64_t, std::size_t> registered_;
  std::map<std::uint64_t, std::size_t> host_allocations_;
};

}  // namespace paceline::cuda::stand_in
