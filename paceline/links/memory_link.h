// Links between two processes of one host and one user, through shared memory: a channel each (channel.h),
// and a socket that wakes the peer and tells when it is gone. Nothing of them has a name in the file system.
#pragma once

#include <memory>
#include <string>

#include <absl/status/statusor.h>

#include "paceline/links/link.h"
#include "paceline/links/link_listener.h"

namespace paceline::links {

// At an address like "@0001f" of this host's choice. Errors: ResourceExhausted.
absl::StatusOr<std::unique_ptr<LinkListener>> listen_in_memory(LinkGate gate);
// To such a listener's address. Errors: InvalidArgument, Unavailable (nobody listens there), PermissionDenied
// (another user does), ResourceExhausted.
absl::StatusOr<std::unique_ptr<Link>> connect_in_memory(const std::string& address, const std::string& name,
                                                        const LinkOptions& options);

}  // namespace paceline::links
