// Certificates and keys from and to their PEM texts. For this folder only.
#pragma once

#include <ctime>
#include <filesystem>
#include <optional>
#include <string>

#include <absl/status/statusor.h>

#include "paceline/transport/security/identity.h"
#include "paceline/transport/security/openssl.h"

namespace paceline::security {

std::string to_pem(X509* certificate);
std::string to_pem(EVP_PKEY* key);

// Null if the text is none.
Certificate certificate_of(const std::string& pem);
Key key_of(const std::string& pem);

// Errors: those of read_small(); InvalidArgument if the file is not PEM.
absl::StatusOr<Certificate> read_certificate(const std::filesystem::path& path);
absl::StatusOr<Key> read_key(const std::filesystem::path& path);

// Nothing unless the certificate has exactly one such URI.
std::optional<Identity> identity_of(X509* certificate);
// The last second of its validity.
std::time_t expiry_of(X509* certificate);

}  // namespace paceline::security
