// Addresses as people write them: "10.0.0.2:7000", "[fe80::1]:7000". Numbers only, so that nothing waits for
// a name server.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <string>
#include <vector>

#include <absl/status/statusor.h>

namespace paceline::links {

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t bytes = 0;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

// Errors: InvalidArgument.
absl::StatusOr<SocketAddress> parse_address(const std::string& text);
// Parses the address of a host without a port. Errors: InvalidArgument.
absl::StatusOr<SocketAddress> parse_host(const std::string& host, int port);
std::string to_text(const sockaddr_storage& address);

// The name of the network interface that has this address; empty for a wildcard. Errors: NotFound.
absl::StatusOr<std::string> interface_of(const SocketAddress& address);
// The RDMA devices of the same card: "mlx5_0".
std::vector<std::string> rdma_devices(const std::string& interface);

}  // namespace paceline::links
