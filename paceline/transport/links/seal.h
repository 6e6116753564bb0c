// Sealing of a link's frames: AES-128-GCM (NIST SP 800-38D). A frame's data are encrypted and, with its head,
// authenticated; its count is the nonce, so a frame that was changed, left out, repeated or moved does not
// open. The owner's keys are never used directly: every link derives its own from them and from both ends'
// first frames (HMAC-SHA256, RFC 2104), each with a random number. So frames of an older link do not open
// either, and no nonce is used twice even if an owner's key is.
//
// One thread an object.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "paceline/transport/links/aes_gcm.h"

namespace paceline::links {

// The key of one direction of one link whose first frames were `transcript`.
SealKey derive_key(const SealKey& key, std::span<const std::byte> transcript);

// Unpredictable random bytes.
void random_bytes(std::span<std::byte> out);

class Sealer {
 public:
  explicit Sealer(const SealKey& key) : gcm_(fastest_aes_gcm(key)) {}
  // Writes `plain`, encrypted, to `sealed` (of equal length; may be the same memory) and the tag to `tag` (16
  // bytes). Requires: a count that no earlier frame had.
  void seal(std::uint64_t count, std::span<const std::byte> head, std::span<const std::byte> plain,
            std::byte* sealed, std::byte* tag);

 private:
  std::unique_ptr<AesGcm> gcm_;
};

class Opener {
 public:
  explicit Opener(const SealKey& key) : gcm_(fastest_aes_gcm(key)) {}
  // Decrypts in place. False if head, data, count and tag are not those that were sealed; the data are then
  // of no use.
  bool open(std::uint64_t count, std::span<const std::byte> head, std::span<std::byte> data,
            std::span<const std::byte> tag);

 private:
  std::unique_ptr<AesGcm> gcm_;
};

}  // namespace paceline::links
