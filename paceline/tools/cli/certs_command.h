// `paceline certs DIR`: an authority and the certificates of a job's roles.
#pragma once

#include <absl/status/status.h>

#include "paceline/transport/security/certificates.h"

namespace paceline::cli {

// Makes the certificates, and prints where each goes and until when it is good. Errors: those of
// make_certificates().
absl::Status certs_command(const security::CertificateRequest& request);

}  // namespace paceline::cli
