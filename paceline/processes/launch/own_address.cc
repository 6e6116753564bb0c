#include "paceline/processes/launch/own_address.h"

#include <netdb.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include <absl/strings/match.h>
#include <fmt/format.h>

#include "paceline/base/file_descriptor.h"
#include "paceline/base/status_macros.h"
#include "paceline/formats/config/reach.h"

namespace paceline::launch {

namespace {

constexpr char kAnyPort[] = "9";  // nothing is sent there

absl::Status no_way(const std::string& host, const char* why) {
  return absl::UnavailableError(
      fmt::format("{}: {}; add --address ADDRESS, where other hosts reach this one", host, why));
}

// Connecting a datagram socket only looks the route up.
absl::StatusOr<std::string> local_end(const addrinfo& to, const std::string& host) {
  const FileDescriptor socket(::socket(to.ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_storage own{};
  socklen_t size = sizeof own;
  auto* address = reinterpret_cast<sockaddr*>(&own);
  if (!socket.valid() || ::connect(socket.get(), to.ai_addr, to.ai_addrlen) != 0 ||
      ::getsockname(socket.get(), address, &size) != 0)
    return no_way(host, std::strerror(errno));
  char text[NI_MAXHOST] = "";
  if (::getnameinfo(address, size, text, sizeof text, nullptr, 0, NI_NUMERICHOST) != 0)
    return no_way(host, "its address has no text");
  return std::string(text);
}

bool is_loopback(const std::string& address) { return config::is_loopback(address + ":0"); }

}  // namespace

std::string from_here(const std::string& address) {
  for (const auto& [everywhere, here] : {std::pair("0.0.0.0:", "127.0.0.1:"), std::pair("[::]:", "[::1]:")}) {
    if (absl::StartsWith(address, everywhere)) return here + address.substr(std::strlen(everywhere));
  }
  return address;
}

absl::StatusOr<std::string> own_address_towards(const std::string& host) {
  addrinfo wanted{};
  wanted.ai_family = AF_UNSPEC;
  wanted.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  const bool brackets = host.size() > 2 && host.front() == '[' && host.back() == ']';
  const std::string name = brackets ? host.substr(1, host.size() - 2) : host;
  if (const int error = ::getaddrinfo(name.c_str(), kAnyPort, &wanted, &found); error != 0) {
    return absl::UnavailableError(
        fmt::format("this host cannot look '{}' up ({}); name host 0 by its number, or add its name to "
                    "/etc/hosts",
                    host, ::gai_strerror(error)));
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> list(found, &::freeaddrinfo);
  absl::StatusOr<std::string> own = no_way(host, "it has no address");
  for (const addrinfo* one = found; one != nullptr && !own.ok(); one = one->ai_next)
    own = local_end(*one, host);
  if (own.ok() && is_loopback(*own) && !is_loopback(name)) {
    return absl::InvalidArgumentError(
        fmt::format("'{}' is {} on this host, which other hosts cannot reach; say --address ADDRESS, or name "
                    "host 0 by its number",
                    host, *own));
  }
  return own;
}

}  // namespace paceline::launch
