#include "paceline/base/host_port.h"

#include <sys/socket.h>

#include <absl/strings/numbers.h>
#include <fmt/format.h>

namespace paceline {

namespace {

constexpr int kMostPort = 65535;

// The fault of a port number; empty if there is none. getaddrinfo() takes larger numbers too, modulo 65536.
std::string wrong_with_port(const std::string& text) {
  if (text.empty()) return "no port after the colon";
  if (text.find_first_not_of("0123456789") != std::string::npos) return "a port that is not a number";
  int port = 0;
  if (absl::SimpleAtoi(text, &port) && port <= kMostPort) return "";
  return "a port that is too large";
}

}  // namespace

std::string host_port(const std::string& host, const std::string& port) {
  const bool bare = host.find(':') != std::string::npos && host.front() != '[';
  return bare ? fmt::format("[{}]:{}", host, port) : fmt::format("{}:{}", host, port);
}

absl::StatusOr<Addresses> look_up(const std::string& address, int flags) {
  const std::size_t colon = address.rfind(':');
  if (colon == std::string::npos)
    return absl::InvalidArgumentError(fmt::format("'{}' is not an address; write HOST:PORT", address));
  const std::string port = address.substr(colon + 1);
  if (const std::string wrong = wrong_with_port(port); !wrong.empty()) {
    return absl::InvalidArgumentError(
        fmt::format("'{}' has {}; write HOST:PORT, with a port from 0 to {}", address, wrong, kMostPort));
  }
  if (colon == 0) {
    return absl::InvalidArgumentError(fmt::format(
        "'{0}' has no host before the colon; write HOST:PORT, for example 127.0.0.1{0}", address));
  }
  std::string host = address.substr(0, colon);
  if (host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  addrinfo wanted{};
  wanted.ai_flags = AI_NUMERICSERV | flags;
  wanted.ai_family = AF_UNSPEC;
  wanted.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.c_str(), port.c_str(), &wanted, &found);
  if (error != 0) return absl::UnavailableError(gai_strerror(error));
  return Addresses(found);
}

}  // namespace paceline
