// A TCP socket that listens, which may be handed to another process.
#pragma once

#include <string>

#include <absl/status/statusor.h>

#include "paceline/base/file_descriptor.h"

namespace paceline {

struct ListeningSocket {
  FileDescriptor socket;  // not blocking, and closed by exec()
  std::string address;    // as asked for, with the port that it has
};

// Listens on `address`, HOST:PORT; port 0 is any free one. Errors: Unavailable, in a few words, when it
// cannot be had; InvalidArgument when it is none.
absl::StatusOr<ListeningSocket> listen_at(const std::string& address);

// A socket that another process opened so, by its descriptor; `address` is what it listens on. Errors:
// InvalidArgument when it does not listen.
absl::StatusOr<ListeningSocket> inherited_socket(int fd, const std::string& address);

// The same socket once more. Errors: ResourceExhausted.
absl::StatusOr<ListeningSocket> copy_of(const ListeningSocket& listening);

}  // namespace paceline
