// The address at which other hosts reach this host.
#pragma once

#include <string>

#include <absl/status/statusor.h>

namespace paceline::launch {

// The numeric address of the interface of this host through which packets to `host` (a name or an address)
// leave; if `host` is this one, its own. Errors: Unavailable if the name has no address, or no route leads
// there, which may change; InvalidArgument if `host` is a name of loopback here, which no other host can
// reach.
absl::StatusOr<std::string> own_address_towards(const std::string& host);

// The address at which this host reaches its own listener: one that listens everywhere is at loopback as
// well.
std::string from_here(const std::string& address);

}  // namespace paceline::launch
