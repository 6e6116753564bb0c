#include "paceline/transport/ipc/abstract_socket.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <random>

#include <fmt/format.h>

#include "paceline/base/status_macros.h"

namespace paceline::ipc {

namespace {

constexpr int kMostWaiting = 64;  // connections that are not accepted yet

struct Address {
  sockaddr_un address;
  socklen_t size;
};

absl::StatusOr<Address> address_of(const std::string& name) {
  Address made{};
  if (name.size() < 2 || name.front() != '@' || name.size() > sizeof made.address.sun_path)
    return absl::InvalidArgumentError(fmt::format("{} names no socket", name));
  made.address.sun_family = AF_UNIX;
  std::memcpy(made.address.sun_path + 1, name.data() + 1, name.size() - 1);
  made.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
  return made;
}

absl::Status unavailable(const std::string& name) {
  return absl::UnavailableError(fmt::format("the socket {}: {}", name, std::strerror(errno)));
}

FileDescriptor new_socket(int flags) {
  return FileDescriptor(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | flags, 0));
}

}  // namespace

std::string new_socket_name() {
  std::random_device random;
  return fmt::format("@paceline-{}-{:08x}{:08x}", ::getpid(), random(), random());
}

absl::StatusOr<FileDescriptor> listen_at_name(const std::string& name) {
  PACELINE_ASSIGN_OR_RETURN(const Address at, address_of(name));
  FileDescriptor listener = new_socket(0);
  if (!listener.valid() ||
      ::bind(listener.get(), reinterpret_cast<const sockaddr*>(&at.address), at.size) != 0 ||
      ::listen(listener.get(), kMostWaiting) != 0)
    return unavailable(name);
  return listener;
}

absl::StatusOr<FileDescriptor> connect_to_name(const std::string& name, std::chrono::seconds patience) {
  PACELINE_ASSIGN_OR_RETURN(const Address to, address_of(name));
  FileDescriptor socket = new_socket(patience.count() == 0 ? SOCK_NONBLOCK : 0);
  if (socket.valid() && patience.count() > 0) be_patient(socket.get(), patience);
  if (!socket.valid() ||
      ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&to.address), to.size) != 0)
    return unavailable(name);
  return socket;
}

void be_patient(int socket, std::chrono::seconds patience) {
  const timeval limit{.tv_sec = patience.count(), .tv_usec = 0};
  setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
}

bool of_this_user(int socket) {
  ucred who{};
  socklen_t size = sizeof who;
  return getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &who, &size) == 0 && who.uid == geteuid();
}

}  // namespace paceline::ipc
