// Keys of the links between a job's processes, sealed or not (links/link_name.h). The coordinator makes them,
// for one link each, and messages carry them over its TLS.
#pragma once

#include <string>

#include <absl/status/statusor.h>

#include "paceline/links/link.h"

namespace paceline::rpc {

// Of one direction.
std::string new_link_key();

// Errors: Internal when the coordinator gave others.
absl::StatusOr<links::LinkKeys> link_keys(const std::string& send, const std::string& receive);

}  // namespace paceline::rpc
