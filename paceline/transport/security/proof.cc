#include "paceline/transport/security/proof.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include <fmt/format.h>

#include "paceline/base/check.h"
#include "paceline/transport/security/openssl.h"

namespace paceline::security {

absl::StatusOr<std::string> make_nonce() {
  std::string nonce(kNonceBytes, '\0');
  if (RAND_bytes(reinterpret_cast<unsigned char*>(nonce.data()), static_cast<int>(nonce.size())) != 1)
    return absl::InternalError(fmt::format("no random numbers: {}", openssl_error()));
  return nonce;
}

std::string proof_of(Side side, std::string_view token, std::string_view peers_nonce,
                     std::string_view coordinators_nonce) {
  PACELINE_CHECK(peers_nonce.size() == kNonceBytes && coordinators_nonce.size() == kNonceBytes,
                 "nonces of {} and {} bytes", peers_nonce.size(), coordinators_nonce.size());
  std::string words = side == Side::kCoordinator ? "coordinator" : "peer";
  words += peers_nonce;
  words += coordinators_nonce;
  std::string proof(kProofBytes, '\0');
  unsigned int size = 0;
  const auto* made = HMAC(EVP_sha256(), token.data(), static_cast<int>(token.size()),
                          reinterpret_cast<const unsigned char*>(words.data()), words.size(),
                          reinterpret_cast<unsigned char*>(proof.data()), &size);
  PACELINE_CHECK(made != nullptr && size == kProofBytes, "HMAC: {}", openssl_error());
  return proof;
}

std::optional<std::string> nonce_in(std::string_view opening) {
  if (opening.size() != kOpeningBytes || !opening.starts_with(kOpening)) return std::nullopt;
  return std::string(opening.substr(kOpening.size()));
}

}  // namespace paceline::security
