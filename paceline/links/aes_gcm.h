// AES-128-GCM (NIST SP 800-38D) under one key, by whichever library is the fastest here: OpenSSL everywhere,
// and Intel's IPsec multi-buffer library where it was there to build with and the processor has the wide AES
// of AVX-512, with which it is four to five times as fast. What one seals the others open.
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
  // Writes `plain`, encrypted, to `sealed` (as long; may be the same memory) and the tag to `tag`. Requires:
  // a nonce that nothing under this key had.
  virtual void seal(const GcmNonce& nonce, std::span<const std::byte> head, std::span<const std::byte> plain,
                    std::byte* sealed, std::byte* tag) = 0;
  // Decrypts in place. False when this is not what was sealed; the data are then of no use.
  virtual bool open(const GcmNonce& nonce, std::span<const std::byte> head, std::span<std::byte> data,
                    std::span<const std::byte, kGcmTagBytes> tag) = 0;
};

std::unique_ptr<AesGcm> openssl_aes_gcm(const SealKey& key);
// Null where it is not to be had.
std::unique_ptr<AesGcm> ipsec_mb_aes_gcm(const SealKey& key);
std::unique_ptr<AesGcm> fastest_aes_gcm(const SealKey& key);

}  // namespace paceline::links
