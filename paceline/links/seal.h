// Sealing of a link's frames: AES-128-GCM (NIST SP 800-38D). A frame's data are encrypted and, with its head,
// authenticated; its count is the nonce, so a frame that was changed, left out, repeated or moved does not
// open. The owner's keys are never used as they are: every link derives its own from them and from what both
// ends said first (HMAC-SHA256, RFC 2104), each with a random number. So frames of an older link do not open
// either, and no nonce is used twice even where an owner's key is.
//
// One thread an object.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "paceline/links/aes_gcm.h"

namespace paceline::links {

// The key of one direction of one link, on which both ends have said `transcript`.
SealKey derive_key(const SealKey& key, std::span<const std::byte> transcript);

// Random bytes that nobody can foresee.
void random_bytes(std::span<std::byte> out);

class Sealer {
 public:
  explicit Sealer(const SealKey& key) : gcm_(fastest_aes_gcm(key)) {}
  // Writes `plain`, encrypted, to `sealed` (as long; may be the same memory) and the tag to `tag` (16 bytes).
  // Requires: a count that no frame before had.
  void seal(std::uint64_t count, std::span<const std::byte> head, std::span<const std::byte> plain,
            std::byte* sealed, std::byte* tag);

 private:
  std::unique_ptr<AesGcm> gcm_;
};

class Opener {
 public:
  explicit Opener(const SealKey& key) : gcm_(fastest_aes_gcm(key)) {}
  // Decrypts in place. False when head, data, count and tag are not what was sealed; the data are then of no
  // use.
  bool open(std::uint64_t count, std::span<const std::byte> head, std::span<std::byte> data,
            std::span<const std::byte> tag);

 private:
  std::unique_ptr<AesGcm> gcm_;
};

}  // namespace paceline::links
