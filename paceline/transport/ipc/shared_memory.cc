#include "paceline/transport/ipc/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "paceline/base/memory_file.h"
#include "paceline/base/status_macros.h"

namespace paceline::ipc {

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

Mapping::~Mapping() {
  if (data_ != nullptr) munmap(data_, size_);
}

absl::StatusOr<Mapping> Mapping::map(int fd, std::size_t offset, std::size_t bytes, bool writable) {
  const int protection = writable ? PROT_READ | PROT_WRITE : PROT_READ;
  void* address = mmap(nullptr, bytes, protection, MAP_SHARED, fd, static_cast<off_t>(offset));
  if (address == MAP_FAILED) {
    return absl::ResourceExhaustedError(
        fmt::format("cannot map {} bytes of shared memory: {}", bytes, std::strerror(errno)));
  }
  Mapping mapping;
  mapping.data_ = static_cast<std::byte*>(address);
  mapping.size_ = bytes;
  return mapping;
}

absl::StatusOr<Mapping> Mapping::reserve(std::size_t bytes) {
  void* address = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (address == MAP_FAILED) {
    return absl::ResourceExhaustedError(
        fmt::format("cannot reserve {} bytes of addresses: {}", bytes, std::strerror(errno)));
  }
  Mapping mapping;
  mapping.data_ = static_cast<std::byte*>(address);
  mapping.size_ = bytes;
  return mapping;
}

SharedMemory::SharedMemory(SharedMemory&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), size_(std::exchange(other.size_, 0)) {}

SharedMemory& SharedMemory::operator=(SharedMemory&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(size_, other.size_);
  return *this;
}

SharedMemory::~SharedMemory() {
  if (fd_ >= 0) close(fd_);
}

absl::StatusOr<SharedMemory> SharedMemory::create(const std::string& name, std::size_t bytes) {
  const int fd = new_memory_file(name).release();
  if (fd < 0) {
    return absl::ResourceExhaustedError(
        fmt::format("cannot make shared memory '{}': {}", name, std::strerror(errno)));
  }
  SharedMemory memory(fd, bytes);
  if (ftruncate(fd, static_cast<off_t>(bytes)) != 0 ||
      fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return absl::ResourceExhaustedError(
        errno == EFBIG
            ? fmt::format("cannot make {} bytes of shared memory '{}': ulimit -f allows no file of that "
                          "length; raise it, for example ulimit -f unlimited",
                          bytes, name)
            : fmt::format("cannot make {} bytes of shared memory '{}': {}", bytes, name,
                          std::strerror(errno)));
  }
  return memory;
}

absl::StatusOr<SharedMemory> SharedMemory::open(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) {
    return absl::NotFoundError(fmt::format("cannot open shared memory {}: {}", path, std::strerror(errno)));
  }
  auto memory = adopt(FileDescriptor(fd));
  if (!memory.ok())
    return absl::InvalidArgumentError(fmt::format("{} is not shared memory of paceline's", path));
  return memory;
}

absl::StatusOr<SharedMemory> SharedMemory::adopt(FileDescriptor descriptor) {
  struct stat info {};
  const int seals = fcntl(descriptor.get(), F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 || fstat(descriptor.get(), &info) != 0)
    return absl::InvalidArgumentError("a descriptor is not of shared memory of paceline's");
  return SharedMemory(descriptor.release(), static_cast<std::size_t>(info.st_size));
}

absl::StatusOr<Mapping> SharedMemory::map(std::size_t offset, std::size_t bytes, bool writable) const {
  if (offset > size_ || bytes > size_ - offset) {
    return absl::InvalidArgumentError(
        fmt::format("shared memory of {} bytes is too small for {} at {}", size_, bytes, offset));
  }
  return Mapping::map(fd_, offset, bytes, writable);
}

std::string SharedMemory::path() const { return fmt::format("/proc/{}/fd/{}", getpid(), fd_); }

absl::StatusOr<SharedFloats> SharedFloats::create(const std::string& name, std::int64_t floats) {
  const auto size = static_cast<std::size_t>(floats);
  PACELINE_ASSIGN_OR_RETURN(SharedMemory memory, SharedMemory::create(name, size * sizeof(float)));
  PACELINE_ASSIGN_OR_RETURN(Mapping mapping, memory.map(0, size * sizeof(float), true));
  return SharedFloats(std::move(memory), std::move(mapping), size);
}

}  // namespace paceline::ipc
