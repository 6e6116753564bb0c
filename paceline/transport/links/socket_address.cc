#include "paceline/transport/links/socket_address.h"

#include <arpa/inet.h>
#include <ifaddrs.h>

#include <charconv>
#include <cstring>
#include <filesystem>
#include <memory>

#include <fmt/format.h>

namespace paceline::links {

namespace {

const in_addr& v4(const sockaddr* address) { return reinterpret_cast<const sockaddr_in*>(address)->sin_addr; }
const in6_addr& v6(const sockaddr* address) {
  return reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr;
}

bool same_host(const sockaddr* a, const sockaddr* b) {
  if (a->sa_family != b->sa_family) return false;
  if (a->sa_family == AF_INET) return v4(a).s_addr == v4(b).s_addr;
  return a->sa_family == AF_INET6 && IN6_ARE_ADDR_EQUAL(&v6(a), &v6(b));
}

bool wildcard(const sockaddr* address) {
  if (address->sa_family == AF_INET) return v4(address).s_addr == htonl(INADDR_ANY);
  return IN6_IS_ADDR_UNSPECIFIED(&v6(address));
}

}  // namespace

absl::StatusOr<SocketAddress> parse_host(const std::string& host, int port) {
  SocketAddress address;
  auto* in = reinterpret_cast<sockaddr_in*>(&address.storage);
  auto* in6 = reinterpret_cast<sockaddr_in6*>(&address.storage);
  const auto number = htons(static_cast<std::uint16_t>(port));
  if (port >= 0 && port <= 65535 && inet_pton(AF_INET, host.c_str(), &in->sin_addr) == 1) {
    in->sin_family = AF_INET;
    in->sin_port = number;
    address.bytes = sizeof *in;
  } else if (port >= 0 && port <= 65535 && inet_pton(AF_INET6, host.c_str(), &in6->sin6_addr) == 1) {
    in6->sin6_family = AF_INET6;
    in6->sin6_port = number;
    address.bytes = sizeof *in6;
  } else {
    return absl::InvalidArgumentError(
        fmt::format("'{}', port {}, is not an address; write one like 10.0.0.2, port 7000", host, port));
  }
  return address;
}

absl::StatusOr<SocketAddress> parse_address(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  int port = -1;
  if (colon != std::string::npos) {
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data() + colon + 1, end, port);
    if (error != std::errc() || stop != end) port = -1;
  }
  if (port < 0) {
    return absl::InvalidArgumentError(
        fmt::format("'{}' is not an address with a port; write one like 10.0.0.2:7000", text));
  }
  std::string host = text.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  return parse_host(host, port);
}

std::string to_text(const sockaddr_storage& storage) {
  const auto* address = reinterpret_cast<const sockaddr*>(&storage);
  char host[INET6_ADDRSTRLEN] = "";
  if (storage.ss_family == AF_INET) {
    inet_ntop(AF_INET, &v4(address), host, sizeof host);
    return fmt::format("{}:{}", host, ntohs(reinterpret_cast<const sockaddr_in*>(address)->sin_port));
  }
  if (storage.ss_family != AF_INET6) return "unknown";
  inet_ntop(AF_INET6, &v6(address), host, sizeof host);
  return fmt::format("[{}]:{}", host, ntohs(reinterpret_cast<const sockaddr_in6*>(address)->sin6_port));
}

absl::StatusOr<std::string> interface_of(const SocketAddress& address) {
  if (wildcard(address.get())) return std::string();
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return absl::NotFoundError("cannot list this host's network interfaces");
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owned(all, &freeifaddrs);
  for (const ifaddrs* one = all; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr != nullptr && same_host(one->ifa_addr, address.get()))
      return std::string(one->ifa_name);
  }
  return absl::NotFoundError(
      fmt::format("no network interface of this host has the address {}; `ip address` "
                  "lists those it has",
                  to_text(address.storage)));
}

std::vector<std::string> rdma_devices(const std::string& interface) {
  namespace fs = std::filesystem;
  std::vector<std::string> devices;
  if (interface.empty()) return devices;
  std::error_code none;
  for (const auto& one : fs::directory_iterator("/sys/class/net/" + interface + "/device/infiniband", none)) {
    devices.push_back(one.path().filename());
  }
  return devices;
}

}  // namespace paceline::links
