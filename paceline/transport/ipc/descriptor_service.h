// Gives open files by name to other processes of this host and user: the descriptors of memory that has no
// path, as a card's memory. They go over a socket, because /proc/PID/fd cannot open them and pidfd_getfd is
// forbidden in containers.
//
// A request is the line "get NAME". The answer is the line "ok BYTES" with one descriptor, or "no REASON".
// BYTES is the size of the memory, which a descriptor of a card's memory does not say.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include <absl/status/statusor.h>

#include "paceline/base/file_descriptor.h"

namespace paceline::ipc {

class DescriptorService {
 public:
  struct Given {
    FileDescriptor descriptor;
    std::size_t bytes;
  };

  // Listens at an address that no other process has; or at `address`, which a service had that is gone. It gives `given`
  // from the first request on: processes may ask for what that service gave. Errors: no socket can be had; the address
  // is in use.
  static absl::StatusOr<std::unique_ptr<DescriptorService>> start(const std::string& address = "",
                                                                  std::map<std::string, Given> given = {});
  ~DescriptorService();

  // "@" and the name of a socket in Linux's abstract namespace.
  const std::string& address() const { return address_; }
  // Memory of so many bytes. It replaces what has that name. Names have no blanks. Any thread.
  void put(const std::string& name, FileDescriptor descriptor, std::size_t bytes);
  void remove(const std::string& name);

  // Gets a descriptor from a service of another process, as programs do. Errors: NotFound, with the reason;
  // the service is gone.
  static absl::StatusOr<FileDescriptor> get(const std::string& address, const std::string& name);

 private:
  DescriptorService(FileDescriptor listener, FileDescriptor stop, FileDescriptor stopped, std::string address,
                    std::map<std::string, Given> given);
  void serve();
  void answer(FileDescriptor peer);

  const FileDescriptor listener_;
  FileDescriptor stop_;           // closed by the destructor
  const FileDescriptor stopped_;  // readable once stop_ is closed
  const std::string address_;
  std::mutex mutex_;
  std::map<std::string, Given> given_;
  std::thread thread_;
};

}  // namespace paceline::ipc
