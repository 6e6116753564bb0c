// Stream sockets in Linux's abstract namespace. Each network namespace has its own names, so a name leads to a process of
// the same host.
#pragma once

#include <chrono>
#include <string>

#include <absl/status/statusor.h>

#include "paceline/base/file_descriptor.h"

namespace paceline::ipc {

// A name that no other socket has: "@paceline-", this process's number and a random number.
std::string new_socket_name();

// Listens at `name`, which begins with "@". Errors: InvalidArgument if it names no socket; Unavailable.
absl::StatusOr<FileDescriptor> listen_at_name(const std::string& name);

// Connects to the listener at `name`. Connecting, sending and receiving wait no longer than `patience`; if it is 0, the
// socket does not block. Errors: InvalidArgument if it names no socket; Unavailable if nobody listens there.
absl::StatusOr<FileDescriptor> connect_to_name(const std::string& name, std::chrono::seconds patience);

// Sending to this socket and receiving from it wait no longer than that.
void be_patient(int socket, std::chrono::seconds patience);

// Whether the other end of a connection belongs to this process's user.
bool of_this_user(int socket);

}  // namespace paceline::ipc
