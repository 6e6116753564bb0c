// AES-128-GCM (NIST SP 800-38D) under one key, by the fastest library here: OpenSSL everywhere, and Intel's
// IPsec multi-buffer library if it was there at build time and the processor has the wide AES of AVX-512,
// with which it is four to five times as fast. Each opens what the other sealed.
//
// One thread an object.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>

namespace paceline::links {

using SealKey = std::array<std::byte, 16>;
using GcmNonce = std::array<unsigned char, 12>;
inline constexpr std::size_t kGcmTagBytes = 16;

class AesGcm {
 public:
  virtual ~AesGcm() = default;
  // Writes `plain`, encrypted, to `sealed` (of equal length; may be the same memory) and the tag to `tag`.
  // Requires: a nonce that was never used under this key.
  virtual void seal(const GcmNonce& nonce, std::span<const std::byte> head, std::span<const std::byte> plain,
                    std::byte* sealed, std::byte* tag) = 0;
  // Decrypts in place. False if these are not the sealed bytes; the data are then of no use.
  virtual bool open(const GcmNonce& nonce, std::span<const std::byte> head, std::span<std::byte> data,
                    std::span<const std::byte, kGcmTagBytes> tag) = 0;
};

std::unique_ptr<AesGcm> openssl_aes_gcm(const SealKey& key);
// Null if the library or the processor does not have it.
std::unique_ptr<AesGcm> ipsec_mb_aes_gcm(const SealKey& key);
std::unique_ptr<AesGcm> fastest_aes_gcm(const SealKey& key);

}  // namespace paceline::links
