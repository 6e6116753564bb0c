#include "paceline/transport/links/tcp.h"

#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "paceline/base/file_descriptor.h"
#include "paceline/base/status_macros.h"
#include "paceline/transport/links/out_of_means.h"
#include "paceline/transport/links/tcp_port.h"

namespace paceline::links {

namespace {

constexpr int kTcpBacklog = 128;
// The most accepted at a time, so that a flood of connections does not keep the existing ones waiting.
constexpr int kMostAccepted = 16;

class TcpPorts final : public PortListener {
 public:
  TcpPorts(FileDescriptor socket, std::string address)
      : socket_(std::move(socket)), address_(std::move(address)) {}

  const std::string& address() const override { return address_; }
  int fd() const override { return socket_.get(); }
  bool arm() override { return true; }

  bool progress(const OnPort& on_port) override {
    for (int i = 0; i < kMostAccepted; ++i) {
      sockaddr_storage peer{};
      socklen_t bytes = sizeof peer;
      FileDescriptor one(
          accept4(socket_.get(), reinterpret_cast<sockaddr*>(&peer), &bytes, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (!one.valid()) return !out_of_means();
      auto port = TcpPort::accept(std::move(one));
      if (port.ok()) on_port(*std::move(port), to_text(peer));
    }
    return true;
  }

 private:
  FileDescriptor socket_;
  std::string address_;
};

}  // namespace

absl::StatusOr<Tcp> Tcp::open(const std::string& host) {
  PACELINE_ASSIGN_OR_RETURN(const SocketAddress address, parse_host(host, 0));
  PACELINE_RETURN_IF_ERROR(interface_of(address).status());
  return Tcp(host, address);
}

absl::StatusOr<std::unique_ptr<PortListener>> Tcp::open_listener(int port) const {
  PACELINE_ASSIGN_OR_RETURN(const SocketAddress address, parse_host(host_, port));
  const auto failed = [&] {
    return absl::UnavailableError(
        fmt::format("cannot listen on {}: {}", to_text(address.storage), std::strerror(errno)));
  };
  FileDescriptor socket(
      ::socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_TCP));
  // A listener that starts again gets its port back.
  const int yes = 1;
  sockaddr_storage bound{};
  socklen_t bytes = sizeof bound;
  if (!socket.valid() || setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) != 0 ||
      bind(socket.get(), address.get(), address.bytes) != 0 || ::listen(socket.get(), kTcpBacklog) != 0 ||
      getsockname(socket.get(), reinterpret_cast<sockaddr*>(&bound), &bytes) != 0) {
    return failed();
  }
  return std::make_unique<TcpPorts>(std::move(socket), to_text(bound));
}

absl::StatusOr<std::unique_ptr<FramePort>> Tcp::open_port(const std::string& address) const {
  PACELINE_ASSIGN_OR_RETURN(const SocketAddress to, parse_address(address));
  return TcpPort::connect(any_port_, to);
}

}  // namespace paceline::links
