// Addresses as people write them, HOST:PORT, looked up.
#pragma once

#include <netdb.h>

#include <memory>
#include <string>

#include <absl/status/statusor.h>

namespace paceline {

// HOST:PORT, or [HOST]:PORT for an IPv6 address, which has colons of its own.
std::string host_port(const std::string& host, const std::string& port);

struct FreeAddresses {
  void operator()(addrinfo* list) const { freeaddrinfo(list); }
};
using Addresses = std::unique_ptr<addrinfo, FreeAddresses>;

// The addresses for TCP; [HOST] may stand for an IPv6 address. `flags`: AI_PASSIVE to listen there. Errors:
// InvalidArgument when `address` is none; Unavailable, in a few words, when it cannot be found.
absl::StatusOr<Addresses> look_up(const std::string& address, int flags = 0);

}  // namespace paceline
