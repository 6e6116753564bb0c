#include "paceline/base/listening_socket.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include <fmt/format.h>

#include "paceline/base/host_port.h"
#include "paceline/base/status_macros.h"

namespace paceline {

namespace {

constexpr int kBacklog = 1024;

int port_of(int socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size) != 0) return 0;
  if (address.ss_family == AF_INET6) return ntohs(reinterpret_cast<const sockaddr_in6&>(address).sin6_port);
  return ntohs(reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

}  // namespace

absl::StatusOr<ListeningSocket> listen_at(const std::string& address) {
  PACELINE_ASSIGN_OR_RETURN(const Addresses found, look_up(address, AI_PASSIVE));
  int why = 0;
  for (const addrinfo* one = found.get(); one != nullptr; one = one->ai_next) {
    FileDescriptor made(
        socket(one->ai_family, one->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, one->ai_protocol));
    // Connections of the one before, which are over, do not keep the port.
    const int reuse = 1;
    setsockopt(made.get(), SOL_SOCKET, SO_REUSEADDR, &reuse, sizeof reuse);
    if (made.valid() && bind(made.get(), one->ai_addr, one->ai_addrlen) == 0 &&
        listen(made.get(), kBacklog) == 0) {
      const int port = port_of(made.get());
      return ListeningSocket{std::move(made),
                             fmt::format("{}:{}", address.substr(0, address.rfind(':')), port)};
    }
    why = errno;
  }
  if (why == EADDRINUSE) return absl::AlreadyExistsError(std::strerror(why));
  return absl::UnavailableError(why == 0 ? "it has no address" : std::strerror(why));
}

absl::StatusOr<ListeningSocket> inherited_socket(int fd, const std::string& address) {
  int listens = 0;
  socklen_t size = sizeof listens;
  if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) != 0 || listens == 0)
    return absl::InvalidArgumentError(fmt::format("descriptor {} is not a socket that listens", fd));
  fcntl(fd, F_SETFD, FD_CLOEXEC);
  fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
  return ListeningSocket{FileDescriptor(fd), address};
}

absl::StatusOr<ListeningSocket> copy_of(const ListeningSocket& listening) {
  FileDescriptor copy(fcntl(listening.socket.get(), F_DUPFD_CLOEXEC, 0));
  if (!copy.valid()) return absl::ResourceExhaustedError("no file descriptor is left");
  return ListeningSocket{std::move(copy), listening.address};
}

}  // namespace paceline
