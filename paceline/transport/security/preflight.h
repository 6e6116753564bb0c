// Asks a coordinator, before any call: is it there, and would it let this process in? gRPC says of a failed
// connection only that it failed; this says why, in a line for people.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include <absl/status/statusor.h>

#include "paceline/base/file_descriptor.h"
#include "paceline/transport/security/certificates.h"

namespace paceline::security {

// Connects to `address` (HOST:PORT), shows `own`, checks the coordinator's certificate, and waits for the
// coordinator's first byte; gives up after `limit`. Any thread. Errors: Unavailable if no coordinator
// answers, which may change; FailedPrecondition if a retry cannot help; Aborted if the coordinator closed the
// connection without a word at the point where it looks at our certificate, or finds none: gRPC refuses like
// that, but a coordinator that is ending may do it too.
absl::Status preflight(const std::string& address, const Credentials& own, std::chrono::milliseconds limit);

// The same without certificates: each side shows the other that it has the token (proof.h). Returns the open
// connection, for the calls that follow. Errors: as preflight().
absl::StatusOr<FileDescriptor> connect_with_token(const std::string& address, const std::string& token,
                                                  std::chrono::milliseconds limit);

}  // namespace paceline::security
