#include "paceline/base/memory_file.h"

#include <sys/mman.h>

#include <cerrno>

namespace paceline {

namespace {

// MFD_NOEXEC_SEAL, which not every C library names. A host with vm.memfd_noexec = 2 gives no other files, and Linux before
// 6.3 does not know it.
constexpr unsigned kNotExecutable = 0x8;

}  // namespace

FileDescriptor new_memory_file(const std::string& name) {
  const unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
  FileDescriptor file(::memfd_create(name.c_str(), flags | kNotExecutable));
  if (file.valid() || errno != EINVAL) return file;
  return FileDescriptor(::memfd_create(name.c_str(), flags));
}

}  // namespace paceline
