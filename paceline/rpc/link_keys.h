// Keys of the links between a job's processes. The coordinator makes them, for one link each, and messages
// carry them over its TLS.
#pragma once

#include <optional>
#include <string>

#include <absl/status/statusor.h>

#include "paceline/links/link.h"

namespace paceline::rpc {

// Of one direction.
std::string new_link_key();

// Of a link that is sealed, or is not and has none. Errors: Internal when the coordinator gave others.
absl::StatusOr<std::optional<links::LinkKeys>> link_keys(const std::string& send, const std::string& receive,
                                                         bool sealed);

}  // namespace paceline::rpc
