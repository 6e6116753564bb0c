#include "paceline/transport/seal.h"

#include <algorithm>
#include <cstring>

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include "paceline/base/check.h"

namespace paceline::transport {

namespace {

constexpr std::size_t kNonceBytes = 12;
constexpr std::size_t kTag = 16;
using Nonce = std::array<unsigned char, kNonceBytes>;

Nonce nonce_of(std::uint64_t count) {
  Nonce nonce{};
  std::memcpy(nonce.data() + kNonceBytes - sizeof count, &count, sizeof count);
  return nonce;
}

const unsigned char* raw(const std::byte* bytes) { return reinterpret_cast<const unsigned char*>(bytes); }
unsigned char* raw(std::byte* bytes) { return reinterpret_cast<unsigned char*>(bytes); }

// OpenSSL's calls fail here only when it is out of memory or misused.
void must(int result, const char* what) { PACELINE_CHECK(result == 1, "OpenSSL: {} failed", what); }

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

void Sealer::Free::operator()(evp_cipher_ctx_st* context) const { EVP_CIPHER_CTX_free(context); }
void Opener::Free::operator()(evp_cipher_ctx_st* context) const { EVP_CIPHER_CTX_free(context); }

Sealer::Sealer(const SealKey& key) : context_(EVP_CIPHER_CTX_new()) {
  must(EVP_EncryptInit_ex(context_.get(), EVP_aes_128_gcm(), nullptr, raw(key.data()), nullptr), "init");
}

void Sealer::seal(std::uint64_t count, std::span<const std::byte> head, std::span<const std::byte> plain,
                  std::byte* sealed, std::byte* tag) {
  EVP_CIPHER_CTX* context = context_.get();
  int bytes = 0;
  unsigned char none = 0;
  must(EVP_EncryptInit_ex(context, nullptr, nullptr, nullptr, nonce_of(count).data()), "init");
  must(EVP_EncryptUpdate(context, nullptr, &bytes, raw(head.data()), static_cast<int>(head.size())), "head");
  if (!plain.empty()) {
    must(EVP_EncryptUpdate(context, raw(sealed), &bytes, raw(plain.data()), static_cast<int>(plain.size())),
         "encrypt");
  }
  must(EVP_EncryptFinal_ex(context, &none, &bytes), "final");
  must(EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_GCM_GET_TAG, kTag, tag), "tag");
}

Opener::Opener(const SealKey& key) : context_(EVP_CIPHER_CTX_new()) {
  must(EVP_DecryptInit_ex(context_.get(), EVP_aes_128_gcm(), nullptr, raw(key.data()), nullptr), "init");
}

bool Opener::open(std::uint64_t count, std::span<const std::byte> head, std::span<std::byte> data,
                  std::span<const std::byte> tag) {
  if (tag.size() != kTag) return false;
  EVP_CIPHER_CTX* context = context_.get();
  int bytes = 0;
  unsigned char none = 0;
  must(EVP_DecryptInit_ex(context, nullptr, nullptr, nullptr, nonce_of(count).data()), "init");
  must(EVP_DecryptUpdate(context, nullptr, &bytes, raw(head.data()), static_cast<int>(head.size())), "head");
  if (!data.empty()) {
    must(
        EVP_DecryptUpdate(context, raw(data.data()), &bytes, raw(data.data()), static_cast<int>(data.size())),
        "decrypt");
  }
  std::array<std::byte, kTag> expected;
  std::copy(tag.begin(), tag.end(), expected.begin());
  must(EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_GCM_SET_TAG, kTag, expected.data()), "tag");
  return EVP_DecryptFinal_ex(context, &none, &bytes) == 1;
}

}  // namespace paceline::transport
