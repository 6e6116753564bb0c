#include "paceline/transport/links/seal.h"

#include <array>
#include <cstring>

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include "paceline/base/check.h"
#include "paceline/transport/links/openssl_calls.h"

namespace paceline::links {

namespace {

GcmNonce nonce_of(std::uint64_t count) {
  GcmNonce nonce{};
  std::memcpy(nonce.data() + nonce.size() - sizeof count, &count, sizeof count);
  return nonce;
}

}  // namespace

SealKey derive_key(const SealKey& key, std::span<const std::byte> transcript) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int bytes = 0;
  const unsigned char* made = HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
                                   raw(transcript.data()), transcript.size(), digest.data(), &bytes);
  SealKey derived;
  PACELINE_CHECK(made != nullptr && bytes >= derived.size(), "OpenSSL: HMAC failed");
  std::memcpy(derived.data(), digest.data(), derived.size());
  return derived;
}

void random_bytes(std::span<std::byte> out) {
  must(RAND_bytes(raw(out.data()), static_cast<int>(out.size())), "RAND_bytes");
}

void Sealer::seal(std::uint64_t count, std::span<const std::byte> head, std::span<const std::byte> plain,
                  std::byte* sealed, std::byte* tag) {
  gcm_->seal(nonce_of(count), head, plain, sealed, tag);
}

bool Opener::open(std::uint64_t count, std::span<const std::byte> head, std::span<std::byte> data,
                  std::span<const std::byte> tag) {
  return tag.size() == kGcmTagBytes && gcm_->open(nonce_of(count), head, data, tag.first<kGcmTagBytes>());
}

}  // namespace paceline::links
