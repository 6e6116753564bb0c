// Keys of the links between a job's processes, sealed or not (links/link_name.h). The coordinator makes them,
// for one link each, and messages carry them over its TLS.
#pragma once

#include <string>

#include <absl/status/statusor.h>

#include "paceline/transport/links/link.h"

namespace paceline::rpc {

// A new key of one direction of a link.
std::string new_link_key();

// Both keys of a link, as the coordinator sent them. Errors: Internal if they are no such keys.
absl::StatusOr<links::LinkKeys> link_keys(const std::string& send, const std::string& receive);

}  // namespace paceline::rpc
