#include "paceline/links/memory_link.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "paceline/base/file_descriptor.h"
#include "paceline/base/status_macros.h"
#include "paceline/links/memory_port.h"
#include "paceline/links/out_of_means.h"

namespace paceline::links {

namespace {

constexpr int kMemoryBacklog = 64;

FileDescriptor unix_socket() {
  return FileDescriptor(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

absl::Status failed(const std::string& what) {
  return absl::ResourceExhaustedError(fmt::format("{}: {}", what, std::strerror(errno)));
}

// Who is at the other end, as the system knows it. Errors: PermissionDenied.
absl::StatusOr<pid_t> peer_of(const FileDescriptor& socket) {
  ucred who{};
  socklen_t bytes = sizeof who;
  if (getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &who, &bytes) != 0) return failed("no peer");
  if (who.uid != geteuid()) {
    return absl::PermissionDeniedError(fmt::format("process {} is another user's", who.pid));
  }
  return who.pid;
}

class MemoryPorts final : public PortListener {
 public:
  MemoryPorts(FileDescriptor socket, std::string address)
      : socket_(std::move(socket)), address_(std::move(address)) {}

  const std::string& address() const override { return address_; }
  int fd() const override { return socket_.get(); }
  bool arm() override { return true; }

  bool progress(const OnPort& on_port) override {
    for (;;) {
      FileDescriptor one(accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (!one.valid()) return !out_of_means();
      const absl::StatusOr<pid_t> peer = peer_of(one);
      if (peer.ok()) on_port(MemoryPort::await(std::move(one), *peer), fmt::format("process {}", *peer));
    }
  }

 private:
  FileDescriptor socket_;
  std::string address_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<LinkListener>> listen_in_memory(LinkGate gate) {
  FileDescriptor socket = unix_socket();
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  // Without a name the system makes one up, in no file system.
  if (!socket.valid() ||
      bind(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address.sun_family) != 0 ||
      listen(socket.get(), kMemoryBacklog) != 0) {
    return failed("cannot listen in memory");
  }
  socklen_t bytes = sizeof address;
  if (getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &bytes) != 0) {
    return failed("cannot listen in memory");
  }
  const std::size_t name = bytes - offsetof(sockaddr_un, sun_path);
  const std::string text = "@" + std::string(address.sun_path + 1, name - 1);
  return std::make_unique<LinkListener>(std::make_unique<MemoryPorts>(std::move(socket), text),
                                        std::move(gate));
}

absl::StatusOr<std::unique_ptr<Link>> connect_in_memory(const std::string& address, const std::string& name,
                                                        const LinkOptions& options) {
  sockaddr_un to{};
  to.sun_family = AF_UNIX;
  if (address.size() < 2 || address.front() != '@' || address.size() >= sizeof to.sun_path) {
    return absl::InvalidArgumentError(
        fmt::format("'{}' is not the address of a listener in memory; those look like @0001f", address));
  }
  std::memcpy(to.sun_path + 1, address.data() + 1, address.size() - 1);
  const auto bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + address.size());
  FileDescriptor socket = unix_socket();
  if (!socket.valid()) return failed("no socket");
  if (connect(socket.get(), reinterpret_cast<sockaddr*>(&to), bytes) != 0) {
    return absl::UnavailableError(
        fmt::format("link to {}: cannot connect: {}", address, std::strerror(errno)));
  }
  PACELINE_RETURN_IF_ERROR(peer_of(socket).status());
  PACELINE_ASSIGN_OR_RETURN(auto port, MemoryPort::create(std::move(socket)));
  return std::make_unique<Link>(std::move(port), address, name, options);
}

}  // namespace paceline::links
