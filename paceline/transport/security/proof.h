// A proof between the two ends of a connection without certificates that both have the job's token, before
// either says anything else. The token itself never crosses the connection, so an impostor in the
// coordinator's place learns nothing that lets it in.
//
//   peer         kOpening, a nonce                                    kOpeningBytes
//   coordinator  kOpening, a nonce, HMAC(token, "coordinator", both)  kAnswerBytes
//   peer         HMAC(token, "peer", both)                            kProofBytes
//   coordinator  kWelcome or kRefusal                                 kVerdictBytes
//
// HMAC is that of SHA-256 (RFC 2104). Pure, except for the randomness of nonces.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include <absl/status/statusor.h>

namespace paceline::security {

inline constexpr std::string_view kOpening = "paceline";  // neither TLS nor HTTP begins with this
inline constexpr std::string_view kWelcome = "welcome\n";
inline constexpr std::string_view kRefusal = "refused\n";
inline constexpr std::size_t kNonceBytes = 32;
inline constexpr std::size_t kProofBytes = 32;
inline constexpr std::size_t kOpeningBytes = kOpening.size() + kNonceBytes;
inline constexpr std::size_t kAnswerBytes = kOpeningBytes + kProofBytes;
inline constexpr std::size_t kVerdictBytes = kWelcome.size();

// Random bytes. Errors: the system has no randomness to give.
absl::StatusOr<std::string> make_nonce();

enum class Side { kCoordinator, kPeer };

// The proof that `side` has the token. Each nonce has kNonceBytes.
std::string proof_of(Side side, std::string_view token, std::string_view peers_nonce,
                     std::string_view coordinators_nonce);

// The nonce in a side's first message of kOpeningBytes; nothing if the message is something else.
std::optional<std::string> nonce_in(std::string_view opening);

}  // namespace paceline::security
