// A TCP socket that listens, which may be handed to another process.
#pragma once

#include <string>

#include <absl/status/statusor.h>

#include "paceline/base/file_descriptor.h"

namespace paceline {

struct ListeningSocket {
  FileDescriptor socket;  // not blocking, and closed by exec()
  std::string address;    // the address that was asked for, with the real port
};

// Listens on `address`, HOST:PORT; port 0 is any free one. Errors, in a few words: AlreadyExists if the port is taken;
// Unavailable if the address cannot be had for another reason; InvalidArgument if it is none.
absl::StatusOr<ListeningSocket> listen_at(const std::string& address);

// A socket that another process opened this way, by its descriptor; `address` is where it listens. Errors:
// InvalidArgument if it does not listen.
absl::StatusOr<ListeningSocket> inherited_socket(int fd, const std::string& address);

// A second descriptor of the same socket. Errors: ResourceExhausted.
absl::StatusOr<ListeningSocket> copy_of(const ListeningSocket& listening);

}  // namespace paceline
