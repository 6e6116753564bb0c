// A piece of memory that several processes of one host map: an anonymous file (memfd), reached by the others
// through its owner's /proc entry. It has no name in /dev/shm, so it leaves no file behind however its users
// die, and it does not count against a container's small /dev/shm. Its size is sealed: no peer can shrink it
// under a reader.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include <absl/status/statusor.h>

#include "paceline/base/file_descriptor.h"

namespace paceline::ipc {

inline constexpr std::size_t kPageBytes = 4096;
constexpr std::size_t whole_pages(std::size_t bytes) {
  return (bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
}

// A mapping; unmapped when the object goes. Movable, not copyable.
class Mapping {
 public:
  Mapping() = default;
  Mapping(Mapping&& other) noexcept { *this = std::move(other); }
  Mapping& operator=(Mapping&& other) noexcept;
  ~Mapping();

  // Maps `bytes` of the open file from `offset`, a multiple of the page size.
  static absl::StatusOr<Mapping> map(int fd, std::size_t offset, std::size_t bytes, bool writable);
  // Addresses that nothing lies at, for naming places in memory that this process cannot read. A read or a write there
  // ends the process.
  static absl::StatusOr<Mapping> reserve(std::size_t bytes);

  std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }

 private:
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

// An open file of shared memory. Movable, not copyable.
class SharedMemory {
 public:
  SharedMemory(SharedMemory&& other) noexcept;
  SharedMemory& operator=(SharedMemory&& other) noexcept;
  ~SharedMemory();

  // Zero-filled; pages take memory when they are first touched. Errors: ResourceExhausted.
  static absl::StatusOr<SharedMemory> create(const std::string& name, std::size_t bytes);
  // Opens the memory whose path() is `path`, in this process or another. Errors: NotFound when its process is
  // gone.
  static absl::StatusOr<SharedMemory> open(const std::string& path);
  // The memory of an open descriptor that create() made, maybe in another process. Errors: InvalidArgument if the
  // descriptor is of something else.
  static absl::StatusOr<SharedMemory> adopt(FileDescriptor descriptor);

  absl::StatusOr<Mapping> map(std::size_t offset, std::size_t bytes, bool writable) const;
  std::size_t size() const { return size_; }
  int descriptor() const { return fd_; }
  // A path at which other processes of this user and host can open it, as long as this process lives.
  std::string path() const;

 private:
  SharedMemory(int fd, std::size_t size) : fd_(fd), size_(size) {}

  int fd_ = -1;
  std::size_t size_ = 0;
};

// Floats in shared memory, all of it mapped here, zero at first.
class SharedFloats {
 public:
  // Errors: ResourceExhausted.
  static absl::StatusOr<SharedFloats> create(const std::string& name, std::int64_t floats);

  std::span<float> floats() { return {data(), size_}; }
  std::span<const float> floats() const { return {data(), size_}; }
  std::string path() const { return memory_.path(); }
  const Mapping& mapping() const { return mapping_; }

 private:
  SharedFloats(SharedMemory memory, Mapping mapping, std::size_t size)
      : memory_(std::move(memory)), mapping_(std::move(mapping)), size_(size) {}
  float* data() const { return reinterpret_cast<float*>(mapping_.data()); }

  SharedMemory memory_;
  Mapping mapping_;
  std::size_t size_;
};

}  // namespace paceline::ipc
