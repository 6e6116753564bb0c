// Asks a coordinator, before any call: is somebody there, and would this process be let in? gRPC
// says of a connection that failed only that it did; this says why, in a line for people.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include <absl/status/statusor.h>

#include "paceline/base/file_descriptor.h"
#include "paceline/security/certificates.h"

namespace paceline::security {

// Connects to `address` (HOST:PORT), shows `own`, holds the coordinator to its certificate,
// and waits for its first word; gives up after `limit`. Any thread. Errors: Unavailable when nobody is there,
// which may change; FailedPrecondition when it will not; Aborted when it closed the connection in silence
// where a coordinator would have looked at our certificate, or at our missing one: gRPC refuses so, but a
// coordinator that is ending may do it too.
absl::Status preflight(const std::string& address, const Credentials& own, std::chrono::milliseconds limit);

// The same where there are no certificates: each side shows the other that it has the token (proof.h). What
// comes back is open for what the two have to say. Errors: as preflight().
absl::StatusOr<FileDescriptor> connect_with_token(const std::string& address, const std::string& token,
                                                  std::chrono::milliseconds limit);

}  // namespace paceline::security
