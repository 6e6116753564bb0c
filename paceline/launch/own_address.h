// The address at which other hosts reach this host.
#pragma once

#include <string>

#include <absl/status/statusor.h>

namespace paceline::launch {

// The address of this host, in numbers, of the interface that packets to `host` (a name or an address) leave
// by; of `host` itself when that is this one. Errors: Unavailable when the name has no address, or no way
// leads there, which may change; InvalidArgument when `host` is a name that is loopback's here, which nobody
// else can reach.
absl::StatusOr<std::string> own_address_towards(const std::string& host);

// Where a listener of this host is found from here: one that listens everywhere is at loopback as well.
std::string from_here(const std::string& address);

}  // namespace paceline::launch
